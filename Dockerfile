# The images of docker-compose.yaml: docker build --target airflow|worker|pipelines|drydock|training .
# Each has what its group in pyproject.toml lists, in the versions of uv.lock, with bytecode. Nothing here needs BuildKit.
ARG BASE=python:3.11.13-slim-bookworm

FROM ${BASE} AS base
# libgomp: xgboost's threads. git: the commit of a mounted checkout. A base without apt-get has to bring both.
RUN if command -v apt-get; then \
        apt-get update && apt-get install --yes --no-install-recommends git libgomp1 && rm -rf /var/lib/apt/lists/*; \
    fi
RUN groupadd --gid 10001 leeway && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /tmp leeway \
    # A new volume takes its owner from the folder that it is mounted on.
    && for folder in airflow/logs airflow/passwords leeway/docs drydock; do mkdir -p /var/lib/$folder; done \
    && chown -R 10001:10001 /var/lib/airflow /var/lib/leeway /var/lib/drydock
# Where bytecode was compiled none is written: the images are read-only.
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HOME=/tmp

FROM base AS build
ARG UV_VERSION=0.13.8
RUN python3 -m pip install --no-cache-dir uv==${UV_VERSION}
ENV UV_COMPILE_BYTECODE=1 UV_LINK_MODE=copy UV_NO_CACHE=1 UV_PYTHON_DOWNLOADS=never
WORKDIR /build
COPY pyproject.toml uv.lock ./

FROM build AS build-airflow
RUN UV_PROJECT_ENVIRONMENT=/opt/airflow uv sync --frozen --only-group airflow

FROM build AS build-pipelines
RUN UV_PROJECT_ENVIRONMENT=/opt/pipelines uv sync --frozen --only-group pipelines

FROM build AS build-drydock
RUN UV_PROJECT_ENVIRONMENT=/opt/drydock uv sync --frozen --only-group drydock

FROM build AS build-training
RUN UV_PROJECT_ENVIRONMENT=/opt/training uv sync --frozen --only-group training

# The code, for all but the image of training jobs, whose script comes with the job.
FROM base AS code
COPY pyproject.toml uv.lock params.yaml dvc.yaml .dvcignore /opt/leeway/
COPY dags /opt/leeway/dags
COPY docker/airflow /opt/leeway/docker/airflow
COPY docker/healthy.py /opt/leeway/docker/
COPY drydock /opt/leeway/drydock
COPY expectations /opt/leeway/expectations
COPY pipelines /opt/leeway/pipelines
COPY plugins /opt/leeway/plugins
# Others may read it, whatever umask the checkout was made with: the images run as somebody else.
RUN chmod -R a+rX /opt/leeway && python3 -m compileall -q /opt/leeway

# In each image the environment, of a gigabyte or two, lies below the code: a commit changes the small layers only.
FROM base AS runs
ENV PYTHONPATH=/opt/leeway:/opt/leeway/plugins LEEWAY_PROJECT=/opt/leeway
WORKDIR /opt/leeway

FROM runs AS runs-airflow
COPY --from=build-airflow /opt/airflow /opt/airflow
ENV PATH=/opt/airflow/bin:${PATH} AIRFLOW_HOME=/var/lib/airflow

FROM runs-airflow AS airflow
COPY --from=code /opt/leeway /opt/leeway
USER 10001:10001
ARG GIT_COMMIT=
ENV LEEWAY_GIT_COMMIT=${GIT_COMMIT}

# Runs tasks: Airflow without the ML libraries, and beside it the environment that has them, for LEEWAY_PYTHON.
FROM runs-airflow AS worker
COPY --from=build-pipelines /opt/pipelines /opt/pipelines
ENV LEEWAY_PYTHON=/opt/pipelines/bin/python
COPY --from=code /opt/leeway /opt/leeway
USER 10001:10001
ARG GIT_COMMIT=
ENV LEEWAY_GIT_COMMIT=${GIT_COMMIT}

FROM runs AS pipelines
COPY --from=build-pipelines /opt/pipelines /opt/pipelines
ENV PATH=/opt/pipelines/bin:${PATH}
COPY --from=code /opt/leeway /opt/leeway
USER 10001:10001
ARG GIT_COMMIT=
ENV LEEWAY_GIT_COMMIT=${GIT_COMMIT}

# Runs training jobs in its own Python, which therefore has what a training image has.
FROM runs AS drydock
COPY --from=build-drydock /opt/drydock /opt/drydock
ENV PATH=/opt/drydock/bin:${PATH}
COPY --from=code /opt/leeway /opt/leeway
USER 10001:10001
ARG GIT_COMMIT=
ENV LEEWAY_GIT_COMMIT=${GIT_COMMIT}
CMD ["python", "-m", "drydock", "--host", "0.0.0.0", "--data", "/var/lib/drydock"]

FROM base AS training
COPY --from=build-training /opt/training /opt/training
ENV PATH=/opt/training/bin:${PATH}
WORKDIR /opt/ml/code
