# syntax=docker/dockerfile:1
# One image for every worker and command: `docker run context-engine worker build`.

FROM python:3.11-slim-bookworm AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /source
# The virtual environment has no pip of its own: none is left in the end.
RUN python -m venv --without-pip /opt/context-engine
# Dependencies first: they change less often than the code.
COPY pyproject.toml constraints.txt ./
RUN --mount=type=cache,target=/root/.cache/pip \
    python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['dependencies'], sep='\n')" > requirements.txt \
    && python -m pip --python /opt/context-engine/bin/python install -c constraints.txt -r requirements.txt
COPY README.md LICENSE ./
COPY context_engine context_engine
COPY events events
COPY workers workers
RUN --mount=type=cache,target=/root/.cache/pip \
    python -m pip --python /opt/context-engine/bin/python install --no-deps . \
    && /opt/context-engine/bin/python -m compileall -q /opt/context-engine

FROM python:3.11-slim-bookworm
RUN python -m pip uninstall --yes --quiet --root-user-action=ignore pip setuptools wheel \
    && useradd --system --uid 10001 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin context
COPY --from=build /opt/context-engine /opt/context-engine
ENV PATH=/opt/context-engine/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001
WORKDIR /tmp
ENTRYPOINT ["context-engine"]
CMD ["--help"]
