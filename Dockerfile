# The first stage builds an environment from the lock file; the second one carries it, without pip.
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
RUN useradd --system --uid 10001 --no-create-home mocketmq && install --directory --owner=mocketmq /data
USER mocketmq
WORKDIR /data
VOLUME /data

EXPOSE 9877
HEALTHCHECK --interval=5s --timeout=3s --start-period=10s CMD ["mocketmq", "healthcheck"]
ENTRYPOINT ["mocketmq"]
CMD ["serve", "--host", "0.0.0.0", "--data", "/data"]
