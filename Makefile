# Everything happens in .venv, which is made from the lock files; nothing is installed elsewhere.
PYTHON ?= python3
ARGS ?=
DATA ?= mocketmq-data

BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest -p tests.support.progress -rs --durations=10 --durations-min=1
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
UV := build/lock/bin/uv
BUNDLE := build/bundle/venv/bin/python
COMPILED := build/compiled/venv/bin/python
SHIPPED := $(shell find emulator compat migrations spark kits/compiled kits/python pyproject.toml LICENSE -type f ! -name '*.pyc')
COMPILE := $(UV) pip compile --no-config --quiet --universal --python-version 3.11 --generate-hashes \
	--annotation-style line --no-emit-package mocketmq-client --custom-compile-command 'make lock' $(ARGS) pyproject.toml

# Containers set it to stay small. Tests start hundreds of processes, each of which would compile what it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup setup-report setup-dev run demo pictures report test test-slow test-all test-lowest test-compiled interop test-kits test-chart test-roots test-image test-relay differential \
	check format bench fuzz dist bundle site publish-site kit-java names release-check lock clean

help:  ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | while IFS="$$(printf '\t')" read -r target text; do \
		printf '  make %-12s %s\n' "$$target" "$$text"; done

setup: .venv/.runtime  ## make .venv with what the emulator needs to run

setup-report: .venv/.report  ## add what lateness reports need, but Java

setup-dev: .venv/.dev  ## add what tests and checks need

run: setup  ## start the emulator (ARGS="--port 0")
	@$(BIN)/mocketmq serve $(ARGS)

demo: setup-report  ## a day of delayed messages in under two minutes, and a report of it in mocketmq-report
	@$(BIN)/mocketmq demo --report mocketmq-report $(ARGS)

pictures: setup-dev  ## make the pictures and the film in docs/images anew, with a Chromium
	@$(BIN)/python -m tests.support.screenshots docs/images
	@$(BIN)/python -m tests.support.console_pictures docs/images
	@$(BIN)/python -m tests.support.console_film docs/images

report: setup-report  ## how late were the broker's deliveries? Opens the page (DATA=dir, ARGS="--threshold …")
	@$(BIN)/mocketmq report $(DATA) --open $(ARGS)

test: setup-dev  ## prove every promise, in ten minutes on two cores (ARGS="tests/unit -k clock")
	@$(PYTEST) -n 3 $(ARGS)

test-slow: setup-dev  ## what takes long by nature: kills by the hundred, clusters, large herds
	@$(PYTEST) -n 2 -m "slow and not interop and not by_hand and not differential" $(ARGS)

test-all: test test-slow interop test-kits test-relay differential  ## run everything, once

test-lowest: build/lowest/.made  ## run some tests on the oldest versions that pyproject.toml allows, in build/lowest
	@build/lowest/bin/python -m pytest -p no:cacheprovider tests/unit/store tests/unit/cli tests/broker tests/doors/http \
		tests/doors/grpc --ignore tests/doors/http/test_openapi.py \
		--deselect tests/unit/store/test_migrations.py::test_the_sql_of_the_migrations_is_what_alembic_makes_of_them $(ARGS)

test-compiled: build/compiled/.made  ## run tests over the compiled modules that a release has (ARGS="tests/doors")
	@$(COMPILED) -m pytest -p tests.support.progress -p tests.support.compiled -rs --durations=10 --durations-min=1 -n 2 \
		$(or $(ARGS),tests/crash tests/property tests/schemes tests/doors tests/broker tests/unit/store \
		tests/unit/remoting tests/unit/test_reference_pages.py)

interop: setup-dev  ## run the tests with frameworks, clients for Java, Go and Rust, which need Maven, Go, Cargo and protoc
	@$(PYTEST) -m interop tests/clients $(ARGS)

test-kits: setup-dev site  ## try the kits for tests in Java, Go and Node, with what was built of them, which needs Maven and Go
	@$(PYTEST) -m "not slow and not by_hand" tests/kits $(ARGS)

test-chart: setup-dev  ## render the Helm chart, with a Helm that Go builds if none is installed, which takes minutes
	@$(PYTEST) -m by_hand tests/kits/test_chart.py $(ARGS)

test-roots: setup-dev  ## try what a release has in fresh Debian roots with one language each; needs root and debootstrap
	@$(PYTHON) -c 'import os; os.geteuid() and exit("run it as root, which debootstrap and chroot need")'
	@$(PYTEST) -m by_hand tests/kits/test_roots.py $(ARGS)

test-image: setup-dev  ## build and run the images by Docker and Podman of Debian 13; needs root, debootstrap and Maven
	@$(PYTHON) -c 'import os; os.geteuid() and exit("run it as root, which debootstrap and namespaces need")'
	@$(PYTEST) -m by_hand tests/kits/test_image.py tests/kits/test_docker.py $(ARGS)

test-relay: setup-dev  ## run relays before a real Kafka and real RocketMQs, and kill both, which needs Maven
	@$(PYTEST) -m interop tests/relay $(ARGS)

differential: setup-dev  ## play the same on a real RocketMQ and compare, which needs Maven (ARGS="--seed 7")
	@$(PYTEST) -m differential tests/differential $(ARGS)

check: setup-dev  ## formatting, lint and types, changing nothing
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

format: setup-dev  ## format the code and repair what lint can repair
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: setup-dev  ## measure throughput, lateness, memory; never fails
	@$(BIN)/python -m tests.bench $(ARGS)

fuzz: setup-dev  ## send mutated requests to every door and watch the broker (ARGS="--minutes 60 --seed 7")
	@$(BIN)/python -m tests.hostile.fuzz $(ARGS)

dist: setup  ## build the wheels and sdists of broker and clients into dist/, without a network
	@$(BIN)/python -m hatchling build -t sdist -t wheel
	@cd kits/python && $(CURDIR)/$(BIN)/python -m hatchling build -t sdist -t wheel -d $(CURDIR)/dist

bundle: dist/.bundle  ## build mocketmq with its own Python, for machines without one, into dist/

dist/.bundle: build/compiled/.wheels $(wildcard kits/bundle/*)
	@$(BUNDLE) -m pip install --quiet --disable-pip-version-check --no-deps --no-index --force-reinstall build/compiled/wheels/*.whl
	@$(BUNDLE) kits/bundle/build.py
	@touch $@

kit-java: bundle  ## install the kit for Java, with the bundle in a jar, in Maven's local repository
	@$(PYTHON) kits/java/bundle_resources.py
	@echo "Building, testing and installing the kit by Maven, which takes minutes, and downloads its plugins first …"
	@mvn --batch-mode --no-transfer-progress --file kits/java/pom.xml install

site: build/site/.made  ## build the site of the documentation, where no link may be dead
	@build/site/venv/bin/python kits/site/build.py $(ARGS)

publish-site: build/site/.made  ## publish the site of this version on the branch gh-pages of the remote `origin`
	@build/site/venv/bin/python kits/site/publish.py

names:  ## write the version and the names of a release, from kits/release/names.toml, wherever they stand
	@$(PYTHON) kits/release/names.py

release-check:  ## build and check all that a release uploads; needs Maven, Go and npm (ARGS="java node")
	@$(PYTHON) kits/release/check.py $(ARGS)

lock: $(UV)  ## resolve pyproject.toml into the lock files (ARGS=--upgrade for the newest versions)
	@echo "Resolving pyproject.toml into requirements.lock, requirements-report.lock and requirements-dev.lock …"
	@$(COMPILE) --group build --output-file requirements.lock
	@$(COMPILE) --group build --group source --extra report --constraint requirements.lock \
		--output-file requirements-report.lock
	@$(COMPILE) --group build --group bundle --group compile --extra otlp --extra relay --extra sorted --constraint requirements.lock \
		--output-file requirements-bundle.lock
	@$(UV) pip compile --no-config --quiet --universal --python-version 3.11 --generate-hashes --annotation-style line \
		--custom-compile-command 'make lock' $(ARGS) --group site --output-file requirements-site.lock
	@$(COMPILE) --group dev --extra mcp --extra otlp --extra relay --extra report --extra sorted --extra sql --constraint requirements-report.lock --output-file requirements-dev.lock

clean:  ## remove .venv, caches and builds; data directories stay
	@rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .schemathesis
	@rm -rf tests/clients/node/node_modules tests/clients/grpc/node/node_modules tests/kits/node/node_modules tests/kits/openapi/node_modules tests/clients/go/build
	@rm -rf tests/clients/*/target tests/clients/*/*/target kits/java/*/target tests/kits/java/*/target
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

build/site/.made: requirements-site.lock
	@$(require-python)
	@echo "Installing requirements-site.lock into build/site/venv …"
	@test -x build/site/venv/bin/pip || $(PYTHON) -m venv --clear build/site/venv
	@build/site/venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-site.lock
	@touch $@

# A stamp is younger than its lock exactly when the environment holds what the lock says.
.venv/.runtime: requirements.lock pyproject.toml
	$(call install,requirements.lock)
	@touch $@

# Each lock contains those before it, so it renews their stamps as well.
.venv/.report: requirements-report.lock pyproject.toml
	$(call environment)
	$(call install-from-source,requirements-report.lock,setuptools)
	$(call install-from-source,requirements-report.lock,pyspark)
	$(call install,requirements-report.lock)
	@touch .venv/.runtime $@

.venv/.dev: requirements-dev.lock pyproject.toml
	$(call environment)
	$(call install-from-source,requirements-dev.lock,setuptools)
	$(call install-from-source,requirements-dev.lock,pyspark)
	$(call install-from-source,requirements-dev.lock,mq-http-sdk)
	$(call install,requirements-dev.lock)
	@touch .venv/.runtime .venv/.report $@

# Nothing else uses what uv caches for it, gigabytes of pyspark above all. The list is complete, so `--no-deps` holds,
# and without it uv would build pyspark once more to ask what it needs.
LOWEST := $(UV) --no-config --quiet --cache-dir build/lowest.cache

build/lowest/.made: pyproject.toml | $(UV)
	@echo "Installing the oldest versions into build/lowest …"
	@$(LOWEST) pip compile --resolution lowest-direct --python-version 3.11 --extra relay --extra report --extra sorted \
		--group build --group test --no-emit-package mocketmq-client --output-file build/lowest.txt pyproject.toml
	@$(LOWEST) venv --clear --python 3.11 --no-python-downloads build/lowest
	@$(LOWEST) pip install --no-deps --python build/lowest/bin/python -r build/lowest.txt
	@$(LOWEST) pip install --python build/lowest/bin/python --no-deps --no-build-isolation -e ./kits/python -e .
	@rm -rf build/lowest.cache
	@touch $@

# The wheels that the bundle has and `make test-compiled` tries, built once for both. Compiling needs a C compiler and
# Python's headers.
COMPILES = command -v cc >/dev/null && test -e "$$($(BUNDLE) -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h"

build/compiled/.wheels: build/bundle/.made $(SHIPPED)
	@rm -rf build/compiled/wheels
	@cd kits/python && $(CURDIR)/$(BUNDLE) -m hatchling build -t wheel -d $(CURDIR)/build/compiled/wheels
	@if $(COMPILES); then \
		echo "Compiling modules into build/compiled, which takes a minute or two …"; \
		HATCH_BUILD_HOOK_ENABLE_CUSTOM=1 $(BUNDLE) -m hatchling build -t wheel -d build/compiled/wheels && touch $@; \
	else \
		echo "There is no C compiler with Python's headers, so the wheel has no compiled modules."; \
		$(BUNDLE) -m hatchling build -t wheel -d build/compiled/wheels; \
	fi

# The environment has these wheels, and all else from .venv; the editable installation there is not on its path.
build/compiled/.made: .venv/.dev build/compiled/.wheels
	@$(BIN)/python -m venv --clear --without-pip build/compiled/venv
	@$(BIN)/python -m pip --python $(COMPILED) install --quiet --disable-pip-version-check --no-deps --no-index \
		build/compiled/wheels/*.whl
	@$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' >build/compiled/dev.pth
	@mv build/compiled/dev.pth build/compiled/venv/lib/python*/site-packages/
	@touch $@

# mocketmq itself is installed for each bundle as a wheel: PyInstaller does not follow editable installations.
build/bundle/.made: requirements-bundle.lock
	@$(require-python)
	@echo "Installing requirements-bundle.lock into build/bundle/venv …"
	@test -x build/bundle/venv/bin/pip || $(PYTHON) -m venv --clear build/bundle/venv
	@$(BUNDLE) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-bundle.lock
	@touch $@

# pip appears last in a new environment: without it, an earlier attempt was interrupted.
define environment
	@$(require-python)
	@test -x $(BIN)/pip || { echo "Making .venv …"; $(PYTHON) -m venv --clear .venv; }
endef

define install
	$(call environment)
	@echo "Installing $(1) into .venv …"
	@$(PIP) --require-hashes -r $(1)
	@$(PIP) --no-deps --no-build-isolation -e ./kits/python -e .
endef

# Some exist as source only. Built in .venv, by the lock's setuptools: pip alone would fetch any.
define install-from-source
	@mkdir -p build
	@echo "Installing $(2) into .venv …"
	@sed -n '/^$(2)==/,/[^\\]$$/p' $(1) >build/$(2).txt
	@$(PIP) --no-deps --no-build-isolation --require-hashes -r build/$(2).txt
endef

require-python = $(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit( \
	"mocketmq needs Python 3.11 or newer, but $(PYTHON) is %d.%d; name another one: make PYTHON=python3.13 …" \
	% sys.version_info[:2])'

$(UV):
	@$(require-python)
	@echo "Installing uv into build/lock …"
	@$(PYTHON) -m venv build/lock
	@build/lock/bin/python -m pip install --quiet --disable-pip-version-check uv
