# Two images: the emulator, which is built unless another target is named, and `report`, which has Java and Spark
# as well. `docker buildx bake` builds both for all platforms (docker-bake.hcl).
#
# The emulator's image has the bundle (docs/install.md), the C library, and nothing else: no shell, no package manager.
#
# Bases are named by tag and digest, so that a build does not change until these lines do. The digests are those of the
# index for all platforms; `docker buildx imagetools inspect python:3.13-slim` prints the tag's current one as `Digest`.
ARG PYTHON=python:3.13-slim@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b
ARG JAVA=eclipse-temurin:17-jre@sha256:207ecae0b2b104dfc6dfa763d1e9cd2041cb344800a180e24cb1a28ed533ff90

FROM ${JAVA} AS java

FROM ${PYTHON} AS build-report
# Mirrors, for networks that reach PyPI or Debian badly: docs/recipes/compose.md.
ARG PIP_INDEX_URL
WORKDIR /src
RUN python -m venv --without-pip /opt/mocketmq
COPY requirements-report.lock .
# PySpark exists as source only. Built by the lock's setuptools: pip alone would fetch any.
RUN for name in setuptools pyspark; do \
        sed -n "/^$name==/,/[^\\]\$/p" requirements-report.lock >$name.txt && \
        pip --python /opt/mocketmq install --no-cache-dir --no-deps --no-build-isolation --require-hashes -r $name.txt \
        || exit; \
    done
RUN pip --python /opt/mocketmq install --no-cache-dir --require-hashes -r requirements-report.lock
COPY . .
RUN pip --python /opt/mocketmq install --no-cache-dir --no-deps --no-build-isolation ./kits/python .

FROM ${PYTHON} AS report
ARG VERSION=
ARG REVISION=
LABEL org.opencontainers.image.title="mocketmq-report" \
      org.opencontainers.image.description="Lateness reports of mocketmq, by Spark" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
ENV JAVA_HOME=/opt/java/openjdk
COPY --from=java $JAVA_HOME $JAVA_HOME
COPY --from=build-report /opt/mocketmq /opt/mocketmq
ENV PATH=/opt/mocketmq/bin:$JAVA_HOME/bin:$PATH PYTHONUNBUFFERED=1

# The emulator's user, to whom the files in its volume belong.
RUN useradd --uid 10001 --no-create-home mocketmq
USER mocketmq
WORKDIR /tmp
ENTRYPOINT ["mocketmq", "report"]
CMD ["--help"]

FROM ${PYTHON} AS build
ARG PIP_INDEX_URL
ARG DEBIAN_MIRROR
# PyInstaller strips libraries; the compiler is for the modules that kits/compiled names.
RUN if [ -n "$DEBIAN_MIRROR" ]; then \
        sed -i "s|http://deb.debian.org|$DEBIAN_MIRROR|" /etc/apt/sources.list.d/debian.sources; \
    fi && apt-get update && apt-get install --yes --no-install-recommends binutils gcc libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY requirements-bundle.lock .
RUN pip install --no-cache-dir --require-hashes -r requirements-bundle.lock
COPY . .
RUN HATCH_BUILD_HOOK_ENABLE_CUSTOM=1 pip install --no-cache-dir --no-deps --no-build-isolation ./kits/python . \
    && python kits/bundle/build.py --folder /image/opt/mocketmq
RUN kits/image/root.sh /image && mkdir -p /volume/data

FROM scratch
ARG VERSION=
ARG REVISION=
LABEL org.opencontainers.image.title="mocketmq" \
      org.opencontainers.image.description="RocketMQ for test environments: exact delays, inspectable and movable in time" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /image /
ENV PATH=/opt/mocketmq SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt \
    MOCKETMQ_HOST=0.0.0.0 MOCKETMQ_DATA=/data container=oci

# A volume takes over the owner of the directory it is mounted on. The directory is copied as an entry of its parent:
# engines do not change the owner of one that exists.
COPY --from=build --chown=10001:10001 /volume /
USER 10001:10001
WORKDIR /data
VOLUME /data

# JSON API; name server, broker and its VIP channel; gRPC.
EXPOSE 9877 9876 10911 10909 8081
# Each check starts a process, which takes a tenth of a second of CPU. docker-compose.yml asks more often until the broker is
# ready, and more seldom afterwards; Buildah before 1.33 refuses a Dockerfile with that (`--start-interval`).
HEALTHCHECK --interval=10s --timeout=10s --start-period=30s CMD ["mocketmq", "healthcheck"]
ENTRYPOINT ["mocketmq"]
CMD ["serve"]
