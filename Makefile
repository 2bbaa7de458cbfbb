# Every target sets up what it needs, from a bare clone with Python 3.11 or later, git and make.
.DEFAULT_GOAL := help
.PHONY: help setup demo replay up down backup restore mwaa compose-init compose-up compose-offline compose-demo compose-down check test test-fast docs bench soak clean distclean

UV_VERSION := 0.13.8
# Both stamps are written last: what was interrupted is done again.
UV := .leeway/uv/.$(UV_VERSION)
STAMP := .venv/.leeway-stamp
PYTHON ?= $(shell for p in python3.11 python3.12 python3; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 13))' 2>/dev/null && echo $$p && break; done)
# Bytecode is kept, as it is on the machines of those who set nothing.
RUN := PYTHONDONTWRITEBYTECODE= PYTHONPATH=.:plugins .venv/bin

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## make the environment in .venv

# Compiled at the install: where PYTHONDONTWRITEBYTECODE is set, each process would compile 300 packages again.
$(STAMP): $(UV) uv.lock pyproject.toml
	@rm -f $@
	@echo "Installing what uv.lock lists into .venv (a minute or two, the first time) ..."
	@env -u VIRTUAL_ENV UV_PYTHON_DOWNLOADS=never UV_PROJECT_ENVIRONMENT=.venv .leeway/uv/bin/uv sync --quiet \
		--frozen --compile-bytecode --python .leeway/uv/bin/python
	@touch $@

$(UV):
	@test -n "$(PYTHON)" || { \
		echo "error: no Python 3.11 or 3.12 found; install one, or name it: make $(MAKECMDGOALS) PYTHON=PATH" >&2; exit 2; }
	@rm -rf .leeway/uv && mkdir -p .leeway
	@$(PYTHON) -m venv .leeway/uv
	@.leeway/uv/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@touch $@

demo: $(STAMP) ## run the whole loop on real flights (KEEP=1 leaves it up)
	@.venv/bin/python -m stack demo $(if $(KEEP),--keep)

replay: $(STAMP) ## play 2013 day by day: drift, retraining, and what it was worth (hours; KEEP=1 leaves it up)
	@.venv/bin/python -m stack replay $(if $(KEEP),--keep)

up: $(STAMP) ## start Airflow, MLflow and drydock; prints URLs and login
	@.venv/bin/python -m stack up

down: ## stop what up or demo started, after a crash too
	@if [ -x .venv/bin/python ]; then .venv/bin/python -m stack down; else echo "Nothing was running."; fi

backup: $(STAMP) ## put all state into one file (TO=FILE); the stack has to be down
	@.venv/bin/python -m stack backup $(if $(TO),"$(TO)")

restore: $(STAMP) ## put the state of a backup back (FROM=FILE; FORCE=1 replaces what is there)
	@test -n "$(FROM)" || { echo "error: name the backup: make restore FROM=FILE" >&2; exit 2; }
	@.venv/bin/python -m stack restore "$(FROM)" $(if $(FORCE),--force)

mwaa: $(STAMP) ## make what MWAA reads: dist/plugins.zip, requirements-mwaa.txt, pipelines.tar.gz
	@.venv/bin/python tools/mwaa.py

compose-init: ## make .env with the secrets of docker-compose.yaml, for you only
	@$(or $(PYTHON),python3) docker/init_env.py # nothing is installed for it: any Python 3.9 or later will do

# Services that are not us read what is mounted of it: a checkout that was made with umask 077 would keep it from them.
READABLE = find docker ! -perm -a=r -exec chmod a+rX {} +
# The images know the commit that they were built of.
OF_COMMIT = GIT_COMMIT=$$(git describe --always --abbrev=40 --dirty --exclude='*' 2>/dev/null)

compose-up: compose-init ## build the images and start the team's stack
	@$(READABLE)
	$(OF_COMMIT) docker compose up --build --detach
	@docker compose ps

compose-offline: compose-init ## the same where no image can be pulled: stand-ins for the base images (docs/how-to/compose.md)
	@$(READABLE)
	tools/offline-images
	$(OF_COMMIT) docker compose --file docker-compose.yaml --file docker/offline/compose.yaml up --build --detach

compose-demo: $(STAMP) ## the main job through the team's stack that is up: two months, and a model of them
	@$(RUN)/python tools/compose_demo.py

compose-down: ## stop the team's stack; its data stay in its volumes
	docker compose --profile '*' down

check: $(STAMP) ## style, types and who may import whom
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	$(RUN)/mypy
	$(RUN)/lint-imports

# Two at once, and no more: three on two cores take as long, and make Airflow late. tests/README.md says what runs where.
test: $(STAMP) ## the whole test suite (STORE=1 keeps the durations, by which the workers are balanced)
	$(RUN)/pytest -n 2 --dist loadfile $(if $(STORE),--store-durations)

test-fast: $(STAMP) ## what needs no server: unit tests, the steps' contract, the DAGs
	$(RUN)/pytest -n 2 --dist loadfile tests/unit tests/contract tests/dags

docs: $(STAMP) ## build the documentation's site in site/, strictly
	NO_MKDOCS_2_WARNING=1 $(RUN)/mkdocs build --strict --quiet
	@echo "Open site/index.html."

bench: $(STAMP) ## measure what is claimed fast
	$(RUN)/python -m benchmarks

soak: $(STAMP) ## the long proofs: more kills, seeds and levels than in `make test`, and those of two benchmarks
	$(RUN)/pytest -m soak
	$(RUN)/python -m benchmarks interruptions drydock

clean: down ## stop the stack; remove its state and all outputs
	@if [ -d .leeway ]; then find .leeway -mindepth 1 -maxdepth 1 ! -name uv -exec rm -rf {} +; fi
	@if [ -d data ]; then git clean -fdXq -- data; fi
	@rm -rf site .mypy_cache .ruff_cache .pytest_cache .import_linter_cache

distclean: clean ## clean, and remove the environment
	@rm -rf .venv .leeway
