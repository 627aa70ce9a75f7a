# `uv run just` lists what one can do here, `uv run just RECIPE` does it; arguments after a recipe go to its command: `uv run just unit -k restore`.
# Times are rough, of two cores after everything was downloaded and built: measured, or for unit, objects, spark, versions and interop estimated from the seconds that
# pytest prints for each folder at its end. That of test is of one run, on 2026-11-19, on two cores of which other work took about half.

set positional-arguments

[private]
default:
    @'{{just_executable()}}' --justfile '{{justfile()}}' --list --unsorted

# the inner loop: unit tests without the slow ones; a minute
[group('tests')]
fast *args:
    uv run pytest -m "unit and not slow" -n 2 "$@"

# all unit tests: formats, rules, reference tables, random histories, planted bugs, races; ten minutes
[group('tests')]
unit *args:
    uv run pytest -m unit -n 2 "$@"

# damaged and malicious tables; two minutes
[group('tests')]
hostile *args:
    uv run pytest -m hostile -n 2 "$@"

# the simulator: the control plane under kills, pauses, lost and late answers; five minutes
[group('tests')]
simulator *args:
    uv run pytest -m simulator -n 2 "$@"

# object stores on loopback: S3, Azure, Google; three minutes
[group('tests')]
objects *args:
    uv run pytest -m objects -n 2 "$@"

# the viewer in a headless Chromium; twenty seconds
[group('tests')]
browser *args:
    uv run pytest -m browser "$@"

# tables on a local Spark, on a cluster of processes, over Spark Connect; a quarter of an hour
[group('tests')]
spark *args:
    uv run pytest -m spark "$@"

# PySpark 3.5 and 4.0, each in an environment of its own; three minutes
[group('tests')]
versions *args:
    uv run pytest -m versions "$@"

# Apache Hudi 1.2.0 and hudi-rs judge lakebraid's tables; a quarter of an hour
[group('tests')]
interop *args:
    uv run pytest -m interop "$@"

# all tests, the README's command; 47 minutes beside other work
[group('tests')]
test *args:
    uv run pytest -n 4 "$@"

# ruff, the formatter, mypy, the layers of the imports; half a minute, two minutes the first time
[group('checks')]
lint:
    uv run ruff check
    uv run ruff format --check
    uv run mypy
    uv run lint-imports

# let ruff mend and format what it can; a second
[group('checks')]
tidy:
    uv run ruff check --fix
    uv run ruff format

# the documentation is built, and its links are followed; ten seconds
[group('checks')]
docs:
    NO_MKDOCS_2_WARNING=1 uv run mkdocs build --strict --quiet --site-dir "$(mktemp -d)"

# the wheel and the source archive, in a temporary folder; five seconds
[group('checks')]
build:
    uv build --quiet --out-dir "$(mktemp -d)"

# all that CI does: lint, docs, build, test; a minute more
[group('checks')]
check: lint docs build test

# four writers, a compactor and a reader on one table, and the picture of it; half a minute
[group('try it')]
demo *args:
    uv run lakebraid demo "$@"

# new histories in the simulator: `uv run just storm --seconds 600`; a minute
[group('try it')]
storm *args:
    uv run python -m simulator --seconds 60 --processes 2 "$@"

# small runs of the benchmarks, results in a temporary folder; two minutes
[group('try it')]
bench *args:
    uv run python -m benchmarks.suite --quick --out "$(mktemp -d)" "$@"

# the documentation in a browser, rebuilt as it changes; until it is stopped
[group('try it')]
serve-docs:
    NO_MKDOCS_2_WARNING=1 uv run mkdocs serve
