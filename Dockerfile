# The images of docker-compose.yaml: docker build --target airflow|worker|pipelines|drydock|training .
# Each image has the packages of its extra in pyproject.toml, in the versions of uv.lock, with bytecode. BuildKit is not
# needed.
ARG BASE=python:3.11.13-slim-bookworm

FROM ${BASE} AS base
# xgboost's threads need libgomp. git reads the commit of a mounted checkout. A base image without apt-get has to
# include both.
RUN if command -v apt-get; then \
        apt-get update && apt-get install --yes --no-install-recommends git libgomp1 && rm -rf /var/lib/apt/lists/*; \
    fi
RUN groupadd --gid 10001 leeway && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /tmp leeway \
    # A new volume takes its owner from the folder on which it is mounted.
    && for folder in airflow/logs airflow/passwords leeway/docs leeway/status drydock; do mkdir -p /var/lib/$folder; done \
    && chown -R 10001:10001 /var/lib/airflow /var/lib/leeway /var/lib/drydock
# No bytecode is written at run time: it was compiled at the build, and the images are read-only.
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HOME=/tmp

FROM base AS build
ARG UV_VERSION=0.13.8
RUN python3 -m pip install --no-cache-dir uv==${UV_VERSION}
ENV UV_COMPILE_BYTECODE=1 UV_LINK_MODE=copy UV_NO_CACHE=1 UV_PYTHON_DOWNLOADS=never
WORKDIR /build
COPY pyproject.toml uv.lock ./

FROM build AS build-airflow
RUN UV_PROJECT_ENVIRONMENT=/opt/airflow uv sync --frozen --no-install-project --no-dev --extra airflow --group compose

FROM build AS build-pipelines
RUN UV_PROJECT_ENVIRONMENT=/opt/pipelines uv sync --frozen --no-install-project --no-dev --extra pipelines

FROM build AS build-drydock
RUN UV_PROJECT_ENVIRONMENT=/opt/drydock uv sync --frozen --no-install-project --no-dev --extra drydock

FROM build AS build-training
RUN UV_PROJECT_ENVIRONMENT=/opt/training uv sync --frozen --no-install-project --no-dev --extra training

# The code for all images except `training`: a training job brings its own script.
FROM base AS code
COPY pyproject.toml uv.lock params.yaml dvc.yaml .dvcignore /opt/leeway/
COPY models /opt/leeway/models
COPY dags /opt/leeway/dags
COPY docker/airflow /opt/leeway/docker/airflow
COPY docker/healthy.py /opt/leeway/docker/
COPY drydock /opt/leeway/drydock
COPY expectations /opt/leeway/expectations
COPY pipelines /opt/leeway/pipelines
COPY plugins /opt/leeway/plugins
# The images run as another user, who has to be able to read the code, whatever the umask of the checkout was.
RUN chmod -R a+rX /opt/leeway && python3 -m compileall -q /opt/leeway

# In each image the environment (one or two gigabytes) lies below the code, so that a commit changes small layers only.
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

# The worker runs tasks. It has Airflow without the ML libraries, and a second environment with them for LEEWAY_PYTHON.
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

# Drydock runs training jobs in its own Python, which therefore has the packages of a training image.
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
