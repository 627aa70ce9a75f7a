// SPDX-License-Identifier: Apache-2.0
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.TableResult;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;

/** Executes the statements of a file one after the other, as jobs of a local cluster: Hudi commits at checkpoints. */
public class Statements {
  public static void main(String[] arguments) throws Exception {
    String root = arguments[1];
    Configuration settings = new Configuration();
    settings.setString("table.local-time-zone", "UTC");
    settings.setString("rest.port", "0");
    settings.setString("taskmanager.memory.network.min", "64mb");
    settings.setString("taskmanager.memory.network.max", "64mb");
    settings.setString("taskmanager.memory.managed.size", "64mb");
    StreamExecutionEnvironment environment = StreamExecutionEnvironment.createLocalEnvironment(2, settings);
    environment.enableCheckpointing(2000);
    environment.getCheckpointConfig().setCheckpointStorage("file://" + root + "/checkpoints");
    StreamTableEnvironment tables = StreamTableEnvironment.create(environment);
    for (String statement : Files.readString(Path.of(arguments[0])).replace("${root}", root).split(";\\s*\n")) {
      if (statement.isBlank()) {
        continue;
      }
      TableResult result = tables.executeSql(statement);
      if (result.getJobClient().isPresent()) {
        result.await();
      }
    }
    System.exit(0); // threads of Hudi's timeline server go on otherwise
  }
}
