# The service with its shipped models, in two images (docs/running.md):
#   docker build -t perfmodel .                          full: captures models, retrains
#   docker build -t perfmodel:small --target small .     no PyTorch: a third of the size
#
# Both listen for everybody and so do not start without a key; make one where the state is kept:
#   docker run --rm -v perfmodel:/var/lib/perfmodel perfmodel keys create me --scope admin
#   docker run -p 8000:8000 -v perfmodel:/var/lib/perfmodel perfmodel
#
# torch is pinned in constraints.txt; where pip's own index has no CPU build of it, name one that has
# as PIP_EXTRA_INDEX_URL, or the build stops at its GPU libraries.
ARG BASE=docker.io/library/python:3.11-slim

FROM ${BASE} AS build
ARG PIP_INDEX_URL=
ARG PIP_EXTRA_INDEX_URL=
ARG PIP_FIND_LINKS=
ARG PIP_NO_INDEX=
# Words of a stage are not those of the stages that begin with it; its variables are.
ENV PIP_INDEX_URL=$PIP_INDEX_URL PIP_EXTRA_INDEX_URL=$PIP_EXTRA_INDEX_URL \
    PIP_FIND_LINKS=$PIP_FIND_LINKS PIP_NO_INDEX=$PIP_NO_INDEX \
    PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_COMPILE=1
# `strip`; nothing is compiled, everything comes as wheels.
RUN set -eu; patience="-o Acquire::Retries=5 -o Acquire::http::Timeout=20"; \
    apt-get $patience update; apt-get $patience install --yes --no-install-recommends binutils
WORKDIR /src
RUN python3 -m venv /opt/perfmodel
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY perfmodel perfmodel
COPY service service
COPY models /opt/perfmodel/models
COPY deploy/build-image.sh deploy/

FROM build AS build-small
RUN sh deploy/build-image.sh serve,postgres,remote

FROM build AS build-full
RUN sh deploy/build-image.sh serve,postgres,remote,telemetry,onnx,retrain

FROM ${BASE} AS runtime
LABEL org.opencontainers.image.title="perfmodel" org.opencontainers.image.licenses="Apache-2.0"
RUN useradd --system --uid 10001 --user-group --home-dir /var/lib/perfmodel --create-home perfmodel
ENV PATH=/opt/perfmodel/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    PERFMODEL_MODELS=/opt/perfmodel/models \
    PERFMODEL_DATABASE=sqlite:////var/lib/perfmodel/perfmodel.db \
    PERFMODEL_LISTEN_HOST=0.0.0.0 PERFMODEL_HEALTH_HOST=0.0.0.0 PERFMODEL_HEALTH_PORT=8001
USER 10001:10001
WORKDIR /var/lib/perfmodel
VOLUME /var/lib/perfmodel
EXPOSE 8000 8001
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s --retries=3 \
  CMD ["python3", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8001/v2/health/live', timeout=2)"]
ENTRYPOINT ["perfmodel"]
CMD ["serve"]

FROM runtime AS small
COPY --from=build-small /opt/perfmodel /opt/perfmodel

FROM runtime AS full
COPY --from=build-full /opt/perfmodel /opt/perfmodel
