# Each target first installs what it needs. A fresh clone needs only Python 3.11 or 3.12, git and make.
.DEFAULT_GOAL := help
.PHONY: help setup demo replay up down backup restore mwaa compose-init compose-up compose-offline compose-demo compose-down check test test-fast test-containers conformance docs bench soak clean distclean

UV_VERSION := 0.13.8
# Both stamps are written last, so that an interrupted installation is repeated.
UV := .leeway/uv/.$(UV_VERSION)
STAMP := .venv/.leeway-stamp
UI_PACKAGES := ui/node_modules/.package-lock.json
PYTHON ?= $(shell for p in python3.11 python3.12 python3; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 13))' 2>/dev/null && echo $$p && break; done)
# An empty PYTHONDONTWRITEBYTECODE lets Python write bytecode, as is the default.
RUN := PYTHONDONTWRITEBYTECODE= PYTHONPATH=.:plugins .venv/bin

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## install the environment in .venv

# Bytecode is compiled now. Where PYTHONDONTWRITEBYTECODE is set, each process would compile 300 packages again.
$(STAMP): $(UV) uv.lock pyproject.toml
	@rm -f $@
	@echo "Installing what uv.lock lists into .venv (a minute or two, the first time) ..."
	@env -u VIRTUAL_ENV UV_PYTHON_DOWNLOADS=never UV_PROJECT_ENVIRONMENT=.venv .leeway/uv/bin/uv sync --quiet \
		--frozen --all-extras --no-extra torch --no-extra language --compile-bytecode --python .leeway/uv/bin/python
	@touch $@

$(UV):
	@test -n "$(PYTHON)" || { \
		echo "error: no Python 3.11 or 3.12 found; install one, or name it: make $(MAKECMDGOALS) PYTHON=PATH" >&2; exit 2; }
	@rm -rf .leeway/uv && mkdir -p .leeway && chmod 700 .leeway
	@$(PYTHON) -m venv .leeway/uv
	@.leeway/uv/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@touch $@

# The page's own tests need Node. Without it, or without the npm registry, they are skipped, and all others run.
$(UI_PACKAGES): ui/package-lock.json
	@if command -v npm > /dev/null; then \
		echo "Installing the packages of ui/ ..."; npm --prefix ui ci --silent --no-audit --no-fund || \
		echo "warning: npm could not install the packages of ui/: its tests are skipped" >&2; \
	else echo "Node is missing: the tests of ui/ are skipped."; fi

demo: $(STAMP) ## run the whole loop on real flights (KEEP=1 leaves it up; MODEL=flight_delay trains another model)
	@.venv/bin/python -m stack demo $(if $(MODEL),--model "$(MODEL)") $(if $(KEEP),--keep)

replay: $(STAMP) ## play 2013 day by day and report what retraining on drift was worth (takes hours; KEEP=1 leaves it up)
	@.venv/bin/python -m stack replay $(if $(KEEP),--keep)

up: $(STAMP) ## start Airflow, MLflow and drydock, and print URLs and login
	@.venv/bin/python -m stack up

down: ## stop what up, demo or replay started, also after a crash
	@if [ -x .venv/bin/python ]; then .venv/bin/python -m stack down; else echo "Nothing was running."; fi

backup: $(STAMP) ## write all state to one file (TO=FILE); the stack must be stopped
	@.venv/bin/python -m stack backup $(if $(TO),"$(TO)")

restore: $(STAMP) ## restore the state of a backup (FROM=FILE; FORCE=1 replaces the state that is there)
	@test -n "$(FROM)" || { echo "error: name the backup: make restore FROM=FILE" >&2; exit 2; }
	@.venv/bin/python -m stack restore "$(FROM)" $(if $(FORCE),--force)

mwaa: $(STAMP) ## build the files for MWAA: dist/plugins.zip, requirements-mwaa.txt, pipelines.tar.gz
	@.venv/bin/python tools/mwaa.py

compose-init: ## write the secrets of docker-compose.yaml to .env, which only you can read
	@$(or $(PYTHON),python3) docker/init_env.py # it needs no packages, and any Python from 3.9 on

# Containers run as other users and read mounted files of docker/. With umask 077 at the checkout, they could not.
READABLE = find docker ! -perm -a=r -exec chmod a+rX {} +
# The images hold the commit that they were built from.
OF_COMMIT = GIT_COMMIT=$$(git describe --always --abbrev=40 --dirty --exclude='*' 2>/dev/null)

compose-up: compose-init ## build the images and start the team's stack
	@$(READABLE)
	$(OF_COMMIT) docker compose up --build --detach
	@docker compose ps

compose-offline: compose-init ## start the team's stack where no image can be pulled, with stand-ins for the base images (docs/how-to/compose.md)
	@$(READABLE)
	tools/offline-images
	$(OF_COMMIT) docker compose --file docker-compose.yaml --file docker/offline/compose.yaml up --build --detach

compose-demo: $(STAMP) ## run the demo on the team's stack: ingest two months and train a model
	@$(RUN)/python tools/compose_demo.py

compose-down: ## stop the team's stack; its volumes keep the data
	docker compose --profile '*' down

# A changed docstring also changes files that are made from it, so the quick tests of these files are here, too.
check: $(STAMP) ## check style, types, layers of imports, sizes of modules and functions, and files made from the code
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	$(RUN)/mypy
	$(RUN)/lint-imports
	$(RUN)/pytest -q tests/unit/test_sizes.py tests/unit/tools/test_page_schema.py tests/unit/tools/test_docs_names.py \
		tests/unit/tools/test_patched_names.py \
		tests/unit/leeway/page/test_bundle.py tests/unit/leeway/page/test_old_documents.py

# Four workers on two cores: while tests of some wait for a server, others run. tests/README.md says what runs where.
# After 40 failures the machine or the set-up is broken, and the rest would only wait for limits.
# 75 is the exit code of failures that may come from the machine: tests/tools/second_run.py.
test: $(STAMP) $(UI_PACKAGES) ## run the whole test suite (STORE=1 stores the durations, which balance the workers)
	@status=0; $(RUN)/pytest -n 4 --dist loadfile --maxfail 40 $(if $(STORE),--store-durations) || status=$$?; \
	if [ $$status -eq 75 ]; then \
		files=$$(cat .leeway/failed-test-files); \
		echo "These files run once more, without other tests beside them:" $$files; \
		$(RUN)/pytest -n 1 --dist loadfile @.leeway/failed-test-files && \
		echo "Passed only in the second run:" $$files "(tests/README.md says what to do)"; \
	else exit $$status; fi

test-fast: $(STAMP) ## run the quick tests that need no server: unit tests, contract of the steps, DAGs
	$(RUN)/pytest -n 3 --dist loadfile -m "not soak and not slow" tests/unit tests/contract tests/dags

test-containers: $(STAMP) ## run the tests of drydock's container executor; fails where no Docker engine answers
	REQUIRE_CONTAINER_ENGINE=1 $(RUN)/pytest tests/unit/drydock/execution/test_container.py \
		tests/integration/drydock/test_executors.py \
		tests/integration/drydock/endpoints/test_containers.py

conformance: $(STAMP) ## run moto's own tests of S3, Logs and SageMaker against drydock and moto (downloads them)
	$(RUN)/python tests/tools/moto_conformance.py

docs: $(STAMP) ## build the documentation site in site/; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(RUN)/mkdocs build --strict --quiet
	@echo "Open site/index.html."

bench: $(STAMP) ## measure performance
	$(RUN)/python -m benchmarks

soak: $(STAMP) ## run the long tests: more kills, seeds and levels than `make test`, and two benchmarks
	$(RUN)/pytest -m "soak or stateful"
	$(RUN)/python -m benchmarks interruptions drydock

clean: down ## stop the stack; remove its state and all outputs
	@if [ -d .leeway ]; then find .leeway -mindepth 1 -maxdepth 1 ! -name uv -exec rm -rf {} +; fi
	@if [ -d data ]; then git clean -fdXq -- data; fi
	@rm -rf site .mypy_cache .ruff_cache .pytest_cache .import_linter_cache

distclean: clean ## clean, and remove the environment
	@rm -rf .venv .leeway
