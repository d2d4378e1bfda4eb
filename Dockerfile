# The proxy in a small image: no compiler, no root, nothing secret in a layer. See docs/deploy.md.
#
#   docker build -t toolspeak .
#   docker build -t toolspeak --build-arg EXTRAS= .        without the embedded model's runtime
#   docker buildx build --platform linux/amd64,linux/arm64 -t toolspeak .
ARG PYTHON=3.13

FROM python:${PYTHON}-slim AS build
ARG EXTRAS=embedded
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
COPY packaging/readme.py ./packaging/readme.py
COPY packaging/smollm2 ./packaging/smollm2
# Versions are floors (pyproject.toml): a new build has the newest fixes of everything below.
RUN python -m venv /opt/toolspeak \
 && /opt/toolspeak/bin/pip install --no-cache-dir --disable-pip-version-check ".${EXTRAS:+[$EXTRAS]}" ${EXTRAS:+./packaging/smollm2} \
 && /opt/toolspeak/bin/python -m compileall -q /opt/toolspeak/lib

FROM python:${PYTHON}-slim
LABEL org.opencontainers.image.title="toolspeak" \
      org.opencontainers.image.description="Tool calling for any language model" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/toolspeak /opt/toolspeak
RUN useradd --system --uid 10001 --no-create-home --home-dir /data --shell /usr/sbin/nologin toolspeak \
 && install -d -o toolspeak -g toolspeak -m 0700 /data /data/config /data/state /data/cache
ENV PATH=/opt/toolspeak/bin:$PATH \
    HOME=/data \
    XDG_CONFIG_HOME=/data/config \
    XDG_STATE_HOME=/data/state \
    XDG_CACHE_HOME=/data/cache \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
# Keys that were given out, and the weights of models that were fetched.
VOLUME /data
WORKDIR /data
USER 10001
EXPOSE 8788
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s --retries=3 \
  CMD ["python", "-c", "import http.client as h, sys; c = h.HTTPConnection('127.0.0.1', 8788, timeout=4); c.request('GET', '/health'); sys.exit(c.getresponse().status != 200)"]
ENTRYPOINT ["toolspeak"]
CMD ["serve", "--host", "0.0.0.0"]
