# Two images: the emulator, which is built unless another target is named, and `report`, which has Java and Spark
# as well. For each, one stage builds an environment from a lock file; another carries it, without pip.
FROM python:3.13-slim AS build-report
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
RUN pip --python /opt/mocketmq install --no-cache-dir --no-deps --no-build-isolation .

FROM python:3.13-slim AS report
ENV JAVA_HOME=/opt/java/openjdk
COPY --from=eclipse-temurin:17-jre $JAVA_HOME $JAVA_HOME
COPY --from=build-report /opt/mocketmq /opt/mocketmq
ENV PATH=/opt/mocketmq/bin:$JAVA_HOME/bin:$PATH PYTHONUNBUFFERED=1

# The emulator's user, to whom the files in its volume belong.
RUN useradd --uid 10001 --no-create-home mocketmq
USER mocketmq
WORKDIR /tmp
ENTRYPOINT ["mocketmq", "report"]
CMD ["--help"]

FROM python:3.13-slim AS build
WORKDIR /src
RUN python -m venv --without-pip /opt/mocketmq
COPY requirements.lock .
RUN pip --python /opt/mocketmq install --no-cache-dir --require-hashes -r requirements.lock
COPY . .
RUN pip --python /opt/mocketmq install --no-cache-dir --no-deps --no-build-isolation .

FROM python:3.13-slim
COPY --from=build /opt/mocketmq /opt/mocketmq
ENV PATH=/opt/mocketmq/bin:$PATH PYTHONUNBUFFERED=1

# A volume takes over the owner of the directory it is mounted on.
RUN useradd --uid 10001 --no-create-home mocketmq && install --directory --owner=mocketmq /data
USER mocketmq
WORKDIR /data
VOLUME /data

# JSON API; name server, broker and its VIP channel; gRPC.
EXPOSE 9877 9876 10911 10909 8081
HEALTHCHECK --interval=5s --timeout=10s --start-period=30s CMD ["mocketmq", "healthcheck"]
ENTRYPOINT ["mocketmq"]
CMD ["serve", "--host", "0.0.0.0", "--data", "/data"]
