# The gateway: docker build --tag cnp-router . (docs/deployment.md)

FROM python:3.11.13-slim-bookworm AS build
WORKDIR /src
COPY pyproject.toml setup.py README.md LICENSE ./
COPY cnp_router cnp_router
RUN python -m venv /opt/cnp-router \
  && /opt/cnp-router/bin/pip install --no-cache-dir '.[serve,mcp,openapi,a2a,redis]'

FROM python:3.11.13-slim-bookworm
# A number, so that Kubernetes can see that it is not root.
RUN useradd --no-log-init --uid 10001 --home-dir /data --create-home --shell /usr/sbin/nologin router
COPY --from=build /opt/cnp-router /opt/cnp-router
COPY --chmod=555 scripts/serve_in_container.sh /usr/local/bin/serve-in-container
# One thread for linear algebra: there are several workers, and requests are small.
ENV PATH=/opt/cnp-router/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    OMP_NUM_THREADS=1
WORKDIR /data
USER 10001:10001
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
  CMD ["python", "-c", "from http.client import HTTPConnection; c = HTTPConnection('127.0.0.1', 8000, timeout=4); c.request('GET', '/healthz'); raise SystemExit(c.getresponse().status != 200)"]
ENTRYPOINT ["serve-in-container"]
