# The service with its shipped models. Two sizes:
#   docker build -t perfmodel .                              answers registered graphs; no torch
#   docker build -t perfmodel --build-arg EXTRAS=serve,train,onnx .   also captures named models
#
# It listens for everybody and so does not start without a key; make one where the state is kept:
#   docker run --rm -v perfmodel:/var/lib/perfmodel perfmodel keys create me --scope predict
#   docker run -p 8000:8000 -v perfmodel:/var/lib/perfmodel perfmodel
#
# torch is pinned in constraints.txt; give an index with its CPU build as PIP_EXTRA_INDEX_URL when
# EXTRAS holds `train`, or the plain wheel with its GPU libraries is taken.
FROM python:3.11-slim AS build
ARG EXTRAS=serve
ARG PIP_EXTRA_INDEX_URL=
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
RUN python -m venv /opt/perfmodel
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY perfmodel perfmodel
COPY service service
RUN /opt/perfmodel/bin/pip install -c constraints.txt ".[${EXTRAS}]" \
 && if /opt/perfmodel/bin/pip list | grep -i '^nvidia-'; then \
      echo "NVIDIA packages were pulled in; build with a CPU index for torch" >&2; exit 1; \
    fi

FROM python:3.11-slim
LABEL org.opencontainers.image.title="perfmodel" org.opencontainers.image.licenses="Apache-2.0"
RUN useradd --system --uid 10001 --home-dir /var/lib/perfmodel --create-home perfmodel
COPY --from=build /opt/perfmodel /opt/perfmodel
COPY models /opt/perfmodel/models
ENV PATH=/opt/perfmodel/bin:$PATH PYTHONUNBUFFERED=1 \
    PERFMODEL_KEYS=/var/lib/perfmodel/keys.json
USER perfmodel
WORKDIR /var/lib/perfmodel
VOLUME /var/lib/perfmodel
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s --retries=3 \
  CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/v2/health/live', timeout=2)"]
ENTRYPOINT ["perfmodel"]
CMD ["serve", "--host", "0.0.0.0", "--port", "8000", "--models", "/opt/perfmodel/models", "--database", "/var/lib/perfmodel/perfmodel.db"]
