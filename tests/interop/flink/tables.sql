create table v6_flink_mor_bucket (id int, name string, price decimal(10, 2), ts bigint, part string, primary key (id) not enforced)
 partitioned by (part) with ('connector' = 'hudi', 'path' = 'file://${root}/v6_flink_mor_bucket', 'table.type' = 'MERGE_ON_READ', 'precombine.field' = 'ts',
 'index.type' = 'BUCKET', 'hoodie.bucket.index.num.buckets' = '2', 'write.tasks' = '1', 'compaction.async.enabled' = 'false', 'compaction.schedule.enabled' = 'false',
 'clean.async.enabled' = 'false', 'metadata.enabled' = 'false');
insert into v6_flink_mor_bucket values (1, 'a', 1.50, 10, 'p'), (2, 'b', 2.50, 10, 'p'),
 (3, 'c', 3.50, 10, 'q'), (4, cast(null as string), cast(null as decimal(10, 2)), 10, 'p');
insert into v6_flink_mor_bucket values (1, 'a2', 1.75, 20, 'p'), (2, 'late', 0.00, 5, 'p'),
 (5, 'e', 5.50, 20, 'q');
create table v6_flink_mor_compacted (id int, name string, tags array<string>, counts map<string, int>, place row<x double, y double>, ts bigint, part string, primary key (id) not enforced)
 partitioned by (part) with ('connector' = 'hudi', 'path' = 'file://${root}/v6_flink_mor_compacted', 'table.type' = 'MERGE_ON_READ', 'precombine.field' = 'ts',
 'write.tasks' = '1', 'compaction.tasks' = '1', 'compaction.delta_commits' = '2', 'compaction.async.enabled' = 'true', 'metadata.enabled' = 'false', 'hoodie.datasource.write.hive_style_partitioning' = 'true');
insert into v6_flink_mor_compacted values (1, 'a', array['x', 'y'], map['k', 1], row(1.5, 2.5), 10, 'p'), (2, 'b', cast(null as array<string>), cast(null as map<string, int>), cast(null as row<x double, y double>), 10, 'p');
insert into v6_flink_mor_compacted values (1, 'a2', array['z'], map['k', 2], row(3.5, 4.5), 20, 'p'), (3, 'c', array['c'], map['c', 3], row(0.0, 0.0), 20, 'q');
insert into v6_flink_mor_compacted values (2, 'b2', array['b'], map['b', 2], row(0.5, 0.5), 30, 'p');
create table v6_flink_cow (id int, name string, seen timestamp(3), ts bigint, part string, primary key (id) not enforced)
 partitioned by (part) with ('connector' = 'hudi', 'path' = 'file://${root}/v6_flink_cow', 'table.type' = 'COPY_ON_WRITE', 'precombine.field' = 'ts', 'write.tasks' = '1', 'clean.async.enabled' = 'false');
insert into v6_flink_cow values (1, 'a', timestamp '2026-01-02 03:04:05.678', 10, 'p'), (2, 'b', timestamp '1969-12-31 23:59:59.999', 10, 'p'), (3, 'c', cast(null as timestamp(3)), 10, 'q');
insert into v6_flink_cow values (1, 'a2', timestamp '2026-01-03 00:00:00', 20, 'p'), (3, 'late', timestamp '2026-01-03 00:00:00', 5, 'q'), (4, 'd', timestamp '2026-01-03 00:00:00', 20, 'q');
create table v6_flink_mor_consistent (id int, name string, ts bigint, part string, primary key (id) not enforced)
 partitioned by (part) with ('connector' = 'hudi', 'path' = 'file://${root}/v6_flink_mor_consistent', 'table.type' = 'MERGE_ON_READ', 'precombine.field' = 'ts',
 'index.type' = 'BUCKET', 'hoodie.index.bucket.engine' = 'CONSISTENT_HASHING', 'hoodie.bucket.index.num.buckets' = '2', 'write.tasks' = '1', 'clustering.schedule.enabled' = 'false',
 'compaction.async.enabled' = 'false', 'compaction.schedule.enabled' = 'false', 'clean.async.enabled' = 'false');
insert into v6_flink_mor_consistent values (1, 'a', 10, 'p'), (2, 'b', 10, 'p'), (3, 'c', 10, 'q');
insert into v6_flink_mor_consistent values (1, 'a2', 20, 'p'), (2, 'late', 5, 'p'), (4, 'd', 20, 'q');
