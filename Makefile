# `make help` lists the targets.
SHELL := bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CACHE := $(CURDIR)/.cache
# Everything that is downloaded or built stays in this checkout.
export PENSTOCK_CACHE := $(CACHE)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Else each of the many processes of the tests compiles all that it imports, and the tests.
unexport PYTHONDONTWRITEBYTECODE

DEMO := $(VENV)/.demo
STAMP := $(VENV)/.installed
SPARK := $(VENV)/.spark
KAFKA := $(CACHE)/.kafka
FETCHED := $(CACHE)/.fetched
ARCHIVED := $(CACHE)/class-archives/.created
REQUIREMENTS := $(wildcard requirements/*.txt) pyproject.toml
PIP := $(BIN)/pip install --quiet --require-hashes --no-deps --cache-dir $(CACHE)/pip

# The extension is built by a cargo that is new enough (a rustup without a toolchain answers, too, and
# fails), or taken out of a wheel in dist/. Where there is no such cargo, a toolchain of this checkout
# is installed; where there is no C compiler, Zig (a package) compiles and links.
RUST_MINOR := 87
OWN_RUST := $(CACHE)/rust
RUSTS := $(if $(wildcard $(OWN_RUST)/cargo/bin/cargo),$(OWN_RUST)/cargo/bin:)
ifneq ($(RUSTS),)
export PATH := $(RUSTS)$(PATH)
export RUSTUP_HOME := $(OWN_RUST)/rustup
endif
# A shell of make's own functions has no exported variables before make 4.4.
WITH_RUST := export PATH="$(RUSTS)$$PATH" $(if $(RUSTS),RUSTUP_HOME=$(OWN_RUST)/rustup);
CARGO_WORKS := $(shell $(WITH_RUST) cargo --version >/dev/null 2>&1 && [ "$$(rustc -vV 2>/dev/null | sed -n 's/^release: 1\.\([0-9]*\)\..*/\1/p')" -ge $(RUST_MINOR) ] 2>/dev/null && echo yes)
CC_WORKS := $(shell command -v cc)
CLIPPY_WORKS := $(if $(CARGO_WORKS),$(shell $(WITH_RUST) cargo clippy --version >/dev/null 2>&1 && cargo fmt --version >/dev/null 2>&1 && echo yes))
NATIVE := $(VENV)/.native
NATIVE_SOURCES := pyproject.toml native/Cargo.toml native/crates.sha256 $(shell find native/src -name '*.rs')
# A wheel that is older than a source of the extension is not taken.
WHEEL := $(shell wheel=$$(ls -t dist/penstock_kafka-*_$$(uname -m).whl 2>/dev/null | head -n 1); [ -n "$$wheel" ] && [ -z "$$(find native/src native/Cargo.toml -newer $$wheel)" ] && echo $$wheel)
NO_RUST := Penstock needs its extension: install Rust 1.$(RUST_MINOR) or newer, let rustup reach its server (RUSTUP_DIST_SERVER), or put a wheel of Penstock into dist/
export CARGO_HOME ?= $(CACHE)/cargo
export CARGO_TARGET_DIR := $(CACHE)/native
export CARGO_BUILD_JOBS ?= 2
export RUSTFLAGS ?= --remap-path-prefix=$(CURDIR)=penstock
# An active conda environment is not the one that is meant, and cargo runs its jobs without make.
MATURIN := env -u MAKEFLAGS -u MFLAGS -u CONDA_PREFIX PIP_QUIET=1 VIRTUAL_ENV=$(CURDIR)/$(VENV) $(CURDIR)/$(BIN)/maturin
FETCH_CRATES := cargo fetch --quiet --manifest-path native/Cargo.toml
CHECK_CRATES := $(BIN)/python native/check_crates.py native/Cargo.lock native/crates.sha256
CARGO := env -u MAKEFLAGS -u MFLAGS PYO3_PYTHON=$(CURDIR)/$(BIN)/python cargo

# The tests run in random order; the seed stands in the first lines of what pytest prints.
IN_ORDER := $(if $(ORDER),--randomly-seed=$(ORDER))
# Suites that are targets of their own.
OTHERS := not go and not chaos and not interop and not spark_processes and not parity and not registry and not dist and not helm and not sbom and not browser and not suites and not kerberos
IN_PARTS := --numprocesses=4 --dist=loadfile --no-loadscope-reorder

# Those of make slow-suites, and of .github/workflows/nightly.yml.
SLOW_SUITES := slow interop chaos spark spark-kills spark-versions spark-tables kafka-versions parity registry kerberos model mutants fuzz schemas suites kills soak conformance console-browser

UNIT := $(BIN)/python -m pytest $(IN_ORDER) --numprocesses=2

.PHONY: optimised without-tools help setup demo dist unit test floors lowest test-native asan slow slow-suites coverage console-browser screenshots interop chaos spark spark-kills spark-versions kafka-versions spark-tables parity registry kerberos model mutants fuzz schemas suites kills soak conformance chart image sbom site man workflows lint format bench bench-records bench-schemas bench-metrics bench-small bench-topics bench-state bench-modes bench-threads bench-connections bench-spark bench-rows docs clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | expand -t 12

setup: $(NATIVE) $(STAMP) $(SPARK) $(FETCHED)  ## create .venv, build native/, install Penstock, fetch Kafka and Spark's connector

# What the demo, `dev` and the build of the extension need comes first; tools are installed beside it.
$(DEMO): $(addprefix requirements/,$(addsuffix .txt,build demo json-schema local runtime schemas)) pyproject.toml
	@echo "installing the packages of the gateway"
	@$(PYTHON) -c 'import sys; sys.exit("Penstock needs Python 3.11 or newer: set PYTHON=") if sys.version_info < (3, 11) else None'
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) -r requirements/demo.txt
	@touch $@

$(STAMP): $(DEMO) $(REQUIREMENTS)
	@echo "installing the tools of development"
	@$(PIP) -r requirements/development.txt
	@touch $@

# 450 MB that no unit test outside tests/spark needs. Both install pandas and pyarrow: not at once.
$(SPARK): $(if $(WITHOUT_TOOLS),$(DEMO),$(STAMP)) requirements/spark.txt requirements/frames.txt
	@echo "installing PySpark, 450 MB"
	@$(PIP) -r requirements/spark.txt
	@touch $@

# A crate that is not the one of the list ends all of it.
FROM_CRATES = $(FETCH_CRATES) && $(CHECK_CRATES)
HOST := $$(rustc -vV | sed -n 's/^host: //p')
ZIG := $(CACHE)/tools-cross/bin
# The compiler of build scripts, too.
ZIG_CC = mkdir -p $(CACHE)/zig && printf '\#!/bin/sh\nexec "$(ZIG)/python" -m ziglang cc "$$@"\n' > $(CACHE)/zig/cc && chmod +x $(CACHE)/zig/cc
BY_ZIG = rm -rf $(CACHE)/wheel && $(ZIG_CC) && XDG_CACHE_HOME=$(CACHE) PATH="$(CACHE)/zig:$(ZIG):$$PATH" $(MATURIN) build --quiet --locked --profile setup --out $(CACHE)/wheel --target "$(HOST)" --zig && $(BIN)/python native/install_wheel.py $(CACHE)/wheel/*.whl
BUILD = $(FROM_CRATES) && $(if $(CC_WORKS),$(MATURIN) develop --quiet --locked --profile setup,$(BY_ZIG))

# In a variable: a recipe that names make itself is executed by make --dry-run, too.
AGAIN = $(MAKE) RUST_TRIED=1 $(NATIVE)

$(NATIVE): $(NATIVE_SOURCES) $(WHEEL) $(DEMO) $(if $(WHEEL)$(CC_WORKS),,$(CACHE)/tools-cross/.installed) | $(if $(WHEEL)$(CARGO_WORKS),,$(OWN_RUST)/.installed)
	@echo $(if $(WHEEL),"installing $(WHEEL)","building the extension with Rust: about two minutes")
	@$(if $(WHEEL),$(BIN)/python native/install_wheel.py $(WHEEL),$(if $(CARGO_WORKS),{ $(BUILD); } || { echo "$(NO_RUST)" >&2; exit 1; },$(if $(RUST_TRIED),echo "$(NO_RUST)" >&2; exit 1,$(AGAIN))))
	@echo $(if $(WHEEL),release,setup) > $@

$(OWN_RUST)/.installed: $(CACHE)/tools-rust/.installed
	@$(CACHE)/tools-rust/bin/python -c 'from puccinialin import setup_rust; setup_rust("$(OWN_RUST)")' || { echo "$(NO_RUST)" >&2; exit 1; }
	touch $@

# Benchmarks measure what is published, with all optimisations.
optimised: setup
	@grep -q release $(NATIVE) || { $(FROM_CRATES) && $(MATURIN) develop --quiet --locked --release && echo release > $(NATIVE); }

# Nothing is fetched later: neither by a test nor by a benchmark. This needs no extension.
$(KAFKA): src/penstock/kafka/artifacts.py src/penstock/kafka/artifacts.sha256 | $(DEMO)
	@echo "fetching Kafka"
	@PYTHONPATH=src $(BIN)/python -m penstock.kafka.artifacts
	@touch $@

$(FETCHED): $(KAFKA) tests/spark_connector.py | $(NATIVE) $(SPARK)
	@echo "fetching Spark's connector"
	@$(BIN)/python -m tests.spark_connector
	@touch $@

# Tests start more than a hundred brokers and Sparks.
$(ARCHIVED): tests/class_archives.py | $(FETCHED) $(NATIVE) $(SPARK)
	$(BIN)/python -m tests.class_archives
	touch $@

# The first refusal waits neither for PySpark nor for tools of development.
demo:  ## the main job, end to end, on a real Kafka on this machine
	@$(MAKE) --no-print-directory --jobs=2 $(NATIVE) $(KAFKA)
	@$(BIN)/python examples/demo/demo.py
	@$(MAKE) --no-print-directory WITHOUT_TOOLS=1 $(SPARK)
	@$(BIN)/python examples/demo/history.py

unit: $(NATIVE) $(STAMP)  ## the tests that need no Kafka, no Spark, no process and no seconds each: under a minute, without what else make setup fetches; ORDER= repeats an order
	$(UNIT) -m "unit and not thorough and not slow"

# What needs no other result of these is done at the same time: Kafka is fetched, which is mostly
# waiting, beside the linters. Lint has run the tests of words.
test:  ## linters, types, import contracts, unit tests, and the tests against a real Kafka; under 20 minutes
	$(MAKE) --jobs=2 $(NATIVE) $(STAMP) $(SPARK)
	$(MAKE) --jobs=3 lint test-native $(ARCHIVED)
	$(UNIT) -m "unit and not slow" --ignore=tests/test_words.py
	$(BIN)/python -m pytest $(IN_ORDER) $(IN_PARTS) -m "not unit and not slow and $(OTHERS)"

# Nothing but the packages of pyproject.toml is older there: what they need comes with them.
floors:  ## lowest allowed versions: the unit tests with the floors of pyproject.toml, in an environment of their own
	$(MAKE) VENV=.cache/floors lowest
	$(MAKE) VENV=.cache/floors unit

lowest: $(VENV)/.lowest

$(VENV)/.lowest: $(STAMP) tests/floors.py
	$(BIN)/python -m tests.floors > $@.txt
	$(BIN)/pip install --quiet --cache-dir $(CACHE)/pip -r $@.txt
	touch $@

slow: setup $(ARCHIVED)  ## the other tests against a real Kafka: those that take long each, because they kill, wait, or need Spark for long; more random inputs and histories
	$(BIN)/python -m pytest $(IN_ORDER) $(IN_PARTS) -m "slow and $(OTHERS)"

slow-suites: setup  ## all slow suites one after another; .cache/slow-suites.tsv gets their seconds and exit codes; one that has passed on this commit is not run again; SUITES= for some, LIMIT= for the minutes of each (180)
	$(BIN)/python -m tests.slow_suites --limit $(or $(LIMIT),180) $(or $(SUITES),$(SLOW_SUITES))

test-native: $(NATIVE)  ## the tests of native/ that need no Python; FUZZ_INPUTS= and RING_HISTORIES= for more of them
	$(if $(CARGO_WORKS),$(CARGO) test --quiet --locked --manifest-path native/Cargo.toml)

asan: setup  ## the tests of native/ with AddressSanitizer; needs a nightly Rust
	RUSTFLAGS=-Zsanitizer=address CARGO_TARGET_DIR=$(CACHE)/native-asan $(CARGO) +nightly test --quiet --locked --manifest-path native/Cargo.toml --target $$(rustc -vV | sed -n 's/^host: //p')

coverage: setup  ## what the tests run, by module, gateways and commands included; worker processes are killed before they could say
	rm -f $(CACHE)/coverage*
	$(BIN)/python -m pytest $(IN_ORDER) --cov --cov-report= --numprocesses=2 --dist=loadfile --no-loadscope-reorder
	-$(BIN)/coverage combine --append
	$(BIN)/coverage report

interop: setup $(ARCHIVED)  ## every client through dropped connections, 200,000 records each, refused batches, and as an admin; Streams, Connect, MirrorMaker, Flink, Spark and log shippers in each mode; needs Go
	cd tests/interop/go && GOMODCACHE=$(CACHE)/go-mod GOFLAGS=-modcacherw go mod download
	$(BIN)/python -m tests.interop.programs
	$(BIN)/python -m pytest tests/interop/test_dropped_connections.py tests/interop/test_dropped_transactions.py tests/interop/test_refusals.py tests/interop/test_refused_streams.py tests/interop/test_streams.py tests/interop/test_connect.py tests/interop/test_mirror_maker.py tests/interop/test_shippers.py tests/interop/test_meant_broker.py tests/interop/test_topic_settings.py -m "go or not go" --interop-records=200000

chaos: setup $(ARCHIVED)  ## exactly once: 50 rounds in which brokers, gateways and connections go and come back
	$(BIN)/python -m pytest tests/chaos tests/integration/test_three_brokers.py -m "chaos or not chaos" --chaos-rounds=50

spark: setup $(ARCHIVED)  ## Spark's drivers, executors and disks fail in the middle of jobs; a cluster, Spark Connect, secrets in Spark's UI
	$(BIN)/python -m pytest tests/spark tests/jobs -m spark_processes --kill-rounds=3

spark-kills: setup $(ARCHIVED)  ## split, its stream and redrive, on Spark and without it, killed at random moments in 50 rounds while brokers come and go; ROUNDS=, SEED=
	$(BIN)/python -m pytest tests/jobs/kills -m spark_processes --kill-rounds=$(or $(ROUNDS),50) $(if $(SEED),--chaos-seed=$(SEED)) -o timeout=7200

spark-versions: setup  ## audit, split, judge and streams on PySpark 3.5, 4.0, 4.1, 4.2 and 4.3, on a master and with Spark Connect; examples/pipelines from 4.1 on; each is installed in an environment of its own; VERSIONS= for others
	$(BIN)/python -m tests.spark_versions $(VERSIONS)

kafka-versions: setup $(ARCHIVED)  ## the tests of the gateway and of the jobs on brokers of Kafka 3.9, 4.0, 4.2 and 4.4; VERSIONS= for others
	$(BIN)/python -m tests.kafka_versions $(VERSIONS) -- $(IN_ORDER) $(IN_PARTS) -m "not unit and not slow and $(OTHERS)"

spark-tables: setup  ## split to real Delta and Iceberg tables, each on a PySpark in an environment of its own: batches, streams, crashes between commits, kills; STEPS= for some, and for one format
	$(BIN)/python -m tests.spark_tables $(STEPS)

parity: setup $(ARCHIVED)  ## 100,000 records a kind of policy, judged alike by the gateway, frames of Spark and raw batches; RECORDS=, SEED=
	$(BIN)/python -m pytest tests/parity -m parity --parity-records=$(or $(RECORDS),100000) $(if $(SEED),--parity-seed=$(SEED))

registry: setup  ## a real schema registry (Apicurio, fetched here), with what Confluent's serializers write
	$(BIN)/python -m tests.registry.apicurio
	$(BIN)/python -m pytest tests/registry -m registry

# The package is built: it has no wheel for Linux.
NO_KRB5 := make kerberos needs krb5-config: install libkrb5-dev
$(VENV)/.kerberos: requirements/kerberos.txt $(STAMP)
	@command -v krb5-config >/dev/null || $(if $(CI),sudo apt-get install --quiet --yes libkrb5-dev,{ echo "$(NO_KRB5)" >&2; exit 1; })
	$(BIN)/pip install --quiet --require-hashes --no-deps --cache-dir $(CACHE)/pip -r $<
	touch $@

kerberos: setup $(VENV)/.kerberos  ## logins by GSSAPI with MIT's library, at a real KDC (Apache Kerby, fetched here) and Kafka; needs libkrb5-dev and a C compiler
	$(BIN)/python -m tests.kerberos.kdc
	$(BIN)/python -m pytest $(IN_ORDER) tests/kerberos -m kerberos

# Debian's chromium, or another one: CHROMIUM=.
CHROMIUM ?= $(shell command -v chromium || command -v chromium-browser || command -v google-chrome)

$(VENV)/.browser: requirements/browser.txt $(STAMP)
	$(BIN)/pip install --quiet --require-hashes --no-deps --cache-dir $(CACHE)/pip -r $<
	touch $@

console-browser: setup $(VENV)/.browser  ## the console in a real browser: keyboard, light and dark, phone; needs Chromium (CHROMIUM=)
	PENSTOCK_CHROMIUM=$(CHROMIUM) $(BIN)/python -m pytest tests/browser -m browser

screenshots: setup $(VENV)/.browser  ## write the pictures of docs/monitoring.md, of a gateway that is made up
	PENSTOCK_CHROMIUM=$(CHROMIUM) PENSTOCK_SCREENSHOTS=docs $(BIN)/python -m pytest tests/browser/test_screenshots.py -m browser

model: setup  ## 1,000,000 histories of producers, gateways and a broker; HISTORIES= for another number
	$(BIN)/python -m tests.gateway.model.run_histories $(HISTORIES)

fuzz: setup  ## 500,000 requests that lie, as many record sections, and 15,000 histories of rings; INPUTS=, HISTORIES= for other numbers, SEED= to begin with
	FUZZ_INPUTS=$(or $(INPUTS),500000) RING_HISTORIES=$(or $(HISTORIES),15000) $(if $(SEED),RING_SEED=$(SEED)) $(MAKE) test-native
	$(BIN)/python -m pytest tests/kafka/records tests/gateway/lane/test_compression.py tests/gateway/lane/test_table_topics.py tests/hostile/test_fuzz.py -k random_inputs --fuzz-inputs=$(or $(INPUTS),500000) $(if $(SEED),--fuzz-seed=$(SEED)) -o timeout=10000

mutants: $(NATIVE) $(STAMP) $(CACHE)/tools-mutants/.installed  ## change the code at 200 random places, as many in each room, and count the changes that no unit test notices; SAMPLE= for another number, SEED= to repeat, ONLY= for some files or folders
	$(BIN)/python -m tests.mutants --tool $(CACHE)/tools-mutants/bin/python --sample $(or $(SAMPLE),200) $(if $(SEED),--seed $(SEED)) $(ONLY)

schemas: setup  ## 100,000 pairs of a JSON schema and a text a draft, judged in both ways; PAIRS= for another number, SEED= to repeat
	$(BIN)/python -m tests.policies.json_schema.run_oracle $(or $(PAIRS),100000) $(SEED)

kills: setup  ## the gateway killed 200 times at random while topics are created and altered
	$(BIN)/python -m pytest tests/integration/topics/test_kills.py --kill-rounds=200

soak: setup $(ARCHIVED)  ## all clients at once for 20 minutes, while brokers, gateways, workers, connections, topics and the registry come and go; MINUTES=, SEED=, WITHOUT=
	$(BIN)/python -m tests.soak --minutes $(or $(MINUTES),20) $(if $(SEED),--seed $(SEED)) $(foreach client,$(WITHOUT),--without $(client))

suites: setup  ## tests and schemas of others, fetched here: JSON Schema and SchemaStore, Avro, Protobuf, CEL, data contracts, Confluent's rules and serializers with a registry; SUITE= for one, SEED= to repeat, MINUTES= of mutated records for workers; needs Go
	$(BIN)/python -m tests.registry.apicurio
	$(BIN)/python -m pytest tests/suites$(if $(SUITE),/test_$(SUITE).py) -m suites -s -o timeout=3000 $(if $(SEED),--suites-seed=$(SEED)) $(if $(MINUTES),--suites-minutes=$(MINUTES) -o timeout=0)

conformance: setup  ## own test suites of franz-go, librdkafka, rskafka and Kafka Streams, fetched here, directly and through the gateway; SHORT=1, SEED=, WITHOUT=; needs Go, cargo, a C compiler, a JDK
	$(BIN)/python -m tests.conformance $(if $(SHORT),--short) $(if $(SEED),--seed $(SEED)) $(foreach suite,$(WITHOUT),--without $(suite))

# Zig (from a package) links for Linux of either architecture, and for an old glibc.
LINUX_TARGETS := $(foreach machine,x86_64 aarch64,$(machine)-unknown-linux-gnu)
SYSROOT := $(if $(CARGO_WORKS),$(shell $(WITH_RUST) rustc --print sysroot))
TARGETS := $(if $(SYSROOT),$(foreach target,$(LINUX_TARGETS),$(if $(wildcard $(SYSROOT)/lib/rustlib/$(target)/lib),$(target))))
NO_WHEEL = dist/ has no wheel for $(target): run rustup target add $(target)
TREE := $(CACHE)/dist-tree

dist: $(NATIVE) $(STAMP) $(CACHE)/tools-cross/.installed  ## build the sdist and the wheels for x86-64 and aarch64, as far as cargo builds them, into dist/; install each into an environment of its own, try it there
	rm -rf dist
	$(FROM_CRATES)
	$(BIN)/python deploy/dist/tree.py $(TREE)
	$(LINKED) | $(BIN)/python deploy/dist/crates.py notices $(TREE)/native/NOTICES.txt
	cd $(TREE) && $(MATURIN) sdist --out $(CURDIR)/dist
	cd $(TREE) && for target in $(TARGETS); do PATH="$(ZIG):$$PATH" $(MATURIN) build --quiet --locked --release --out $(CURDIR)/dist --target $$target --zig || exit 1; done
	@$(foreach target,$(filter-out $(TARGETS),$(LINUX_TARGETS)),echo "$(NO_WHEEL)" >&2;) true
	$(BIN)/python -m pytest tests/test_distribution.py -m dist

without-tools: setup  ## make setup of a clone, with a PATH without cargo and C compiler, and a toolchain served from a folder
	$(BIN)/python -m pytest tests/test_without_tools.py -m dist

# No other file of Helm's is needed: its module is built, where Go is and no helm.
HELM := $(CACHE)/go/bin/helm
HELM_VERSION := v3.19.0
PROMTOOL := $(CACHE)/go/bin/promtool
# Prometheus 3.7.3, whose module excludes others: go install takes none that does.
PROMTOOL_VERSION := v0.307.3

$(HELM):
	GOBIN=$(@D) GOMODCACHE=$(CACHE)/go-mod GOFLAGS=-modcacherw go install helm.sh/helm/v3/cmd/helm@$(HELM_VERSION)

$(PROMTOOL):
	rm -rf $(CACHE)/promtool && mkdir -p $(CACHE)/promtool
	cd $(CACHE)/promtool && export GOMODCACHE=$(CACHE)/go-mod GOFLAGS=-modcacherw && go mod init promtool && go get github.com/prometheus/prometheus/cmd/promtool@$(PROMTOOL_VERSION) && go build -o $@ github.com/prometheus/prometheus/cmd/promtool

chart: $(STAMP) $(if $(shell command -v helm),,$(HELM)) $(if $(shell command -v promtool),,$(PROMTOOL))  ## what Helm makes of deploy/helm, and when the alerts fire; builds Helm and promtool with Go where they are missing
	$(BIN)/python -m pytest tests/deploy -m helm

image:  ## the gateway's image, and what penstock --version says in it; needs Docker
	docker build --file deploy/docker/Dockerfile --tag penstock .
	docker run --rm penstock --version

# Tools with many packages of their own, in environments of their own.
$(CACHE)/tools-%/.installed: requirements/%.txt | $(STAMP)
	rm -rf $(@D)
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/pip install --quiet --require-hashes --no-deps --cache-dir $(CACHE)/pip -r $<
	touch $@

LINKED = cargo metadata --format-version 1 --locked --manifest-path native/Cargo.toml --features python --filter-platform x86_64-unknown-linux-gnu --filter-platform aarch64-unknown-linux-gnu

# The packages of the image and the crates in its extension, and no others.
sbom: $(CACHE)/tools-sbom/.installed  ## write dist/penstock.cdx.json: what the gateway's image has installed (CycloneDX)
	rm -rf $(CACHE)/installed && mkdir -p dist
	$(PYTHON) -m venv --without-pip $(CACHE)/installed
	$(BIN)/pip --python $(CACHE)/installed/bin/python install --quiet --require-hashes --no-deps --cache-dir $(CACHE)/pip -r requirements/json-schema.txt -r requirements/schemas.txt
	$(FROM_CRATES) && $(MATURIN) build --quiet --locked --profile setup --out $(CACHE)/installed/wheel
	$(BIN)/pip --python $(CACHE)/installed/bin/python install --quiet --no-deps --no-index $(CACHE)/installed/wheel/*.whl
	$(CACHE)/tools-sbom/bin/cyclonedx-py environment --output-reproducible --output-format JSON --output-file dist/penstock.cdx.json --pyproject pyproject.toml --mc-type application $(CACHE)/installed/bin/python
	$(LINKED) | $(BIN)/python deploy/dist/crates.py sbom dist/penstock.cdx.json
	PENSTOCK_SBOM_TOOLS=$(CACHE)/tools-sbom/bin/python $(BIN)/python -m pytest tests/deploy/test_sbom.py -m sbom

site: $(CACHE)/tools-site/.installed  ## the documents as pages, in .cache/site; a link that leads nowhere is an error
	$(BIN)/python deploy/site/pages.py $(CACHE)/site-pages
	NO_MKDOCS_2_WARNING=1 PENSTOCK_VERSION="$$($(BIN)/penstock --version | head -n 1)" $(CACHE)/tools-site/bin/mkdocs build --strict --config-file deploy/site/mkdocs.yml

man: setup  ## write the man page and the completions of shells into share/, from the code
	$(BIN)/python share/make.py

ACTIONLINT := $(CACHE)/go/bin/actionlint
ACTIONLINT_VERSION := v1.7.12

$(ACTIONLINT):
	GOBIN=$(@D) GOMODCACHE=$(CACHE)/go-mod GOFLAGS=-modcacherw go install github.com/rhysd/actionlint/cmd/actionlint@$(ACTIONLINT_VERSION)

workflows: $(ACTIONLINT)  ## what actionlint says of .github/workflows; builds actionlint with Go
	$(ACTIONLINT)

lint: $(NATIVE) $(STAMP) $(SPARK)  ## formatter, linter, strict types, import contracts, words of the documents
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m pytest --quiet --no-header --durations=0 tests/test_words.py
	$(if $(CLIPPY_WORKS),$(CARGO) fmt --check --manifest-path native/Cargo.toml)
	$(if $(CLIPPY_WORKS),$(CARGO) clippy --quiet --all-targets --features python --manifest-path native/Cargo.toml -- -D warnings)

format: setup  ## write the formatting
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(if $(CLIPPY_WORKS),$(CARGO) fmt --manifest-path native/Cargo.toml)

docs: setup  ## write docs/configuration.md from the code
	$(BIN)/python -c 'from penstock.configuration.reference import reference; print(reference(), end="")' > docs/configuration.md

bench: optimised  ## benchmarks/gateway: direct against through the gateway, as ratios; marks and quarantine beside interceptors; policies without code beside JsonSchema
	$(BIN)/python benchmarks/gateway/bench.py
	$(BIN)/python benchmarks/gateway/modes.py
	$(BIN)/python benchmarks/conditions.py

bench-records: optimised  ## benchmarks/records.py: record batches read and written
	$(BIN)/python benchmarks/records.py

bench-schemas: optimised  ## benchmarks/schemas.py: SchemaPolicy beside JsonSchema by file, plain fastavro and plain upb; and rules
	$(BIN)/python benchmarks/schemas.py
	$(BIN)/python benchmarks/rules.py

bench-metrics: optimised  ## benchmarks/metrics.py: what it costs to count, and to write what was counted
	$(BIN)/python benchmarks/metrics.py
	$(BIN)/python benchmarks/console.py

bench-small: optimised  ## benchmarks/gateway: small requests of librdkafka, direct against through the gateway
	$(BIN)/python benchmarks/gateway/small_requests.py

bench-topics: optimised  ## benchmarks/gateway: requests about topics, direct against through the gateway
	$(BIN)/python benchmarks/gateway/topics.py

bench-state: optimised  ## benchmarks/gateway: what it costs to keep the state of producers
	$(BIN)/python benchmarks/gateway/producer_state.py

bench-modes: optimised  ## benchmarks/gateway: what marks and quarantine cost, beside interceptors on the same records
	$(BIN)/python benchmarks/gateway/modes.py

bench-threads: optimised  ## benchmarks/gateway: what two native threads forward beside one
	$(BIN)/python benchmarks/gateway/native_threads.py

bench-connections: optimised  ## benchmarks/gateway: memory of connections that do nothing
	$(BIN)/python benchmarks/gateway/connections.py

bench-spark: optimised  ## the Spark commands against jobs that do nothing, and what their tasks take without Spark
	$(BIN)/python benchmarks/spark/bench.py --batches 1 10 40 100 1MB 16KB
	$(BIN)/python benchmarks/batch_jobs.py

bench-rows: optimised  ## benchmarks/spark: rows judged, beside column expressions and a plain mapInArrow
	$(BIN)/python benchmarks/spark/rows.py

clean:  ## remove what make setup and the tests created
	rm -rf $(VENV) $(CACHE) dist native/Cargo.lock src/penstock/_native.*.so
