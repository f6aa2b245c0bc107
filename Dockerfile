# Tollgate in a container. Mount your configuration at /tollgate/config (read-only will do) and keep
# /tollgate/data; commands find both by themselves: docker exec NAME tollgate keys list
FROM node:26-slim AS dependencies
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=dev --ignore-scripts

FROM node:26-slim
# Process 1: the kernel drops a signal for which process 1 has no handler, so node in that place would miss a stop that
# comes while it loads.
RUN apt-get update && apt-get install -y --no-install-recommends tini && rm -rf /var/lib/apt/lists/*
ENV NODE_ENV=production
# Where keys and counts are kept, whatever the configuration leaves out: the volume below.
ENV TOLLGATE_DATA=/tollgate/data
COPY --from=dependencies /app/node_modules /app/node_modules
COPY package.json /app/
COPY src /app/src
COPY --chmod=755 container/tollgate /usr/local/bin/tollgate
WORKDIR /tollgate
COPY container/tollgate.yaml config/
RUN install -d -o node -g node data
USER node
VOLUME /tollgate/data
EXPOSE 8080
STOPSIGNAL SIGTERM

# The admin listener stays on loopback, where this reaches it. Another port: set the variable.
ENV TOLLGATE_HEALTH_URL=http://127.0.0.1:9090/livez
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 \
  CMD ["node", "-e", "fetch(process.env.TOLLGATE_HEALTH_URL).then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]

ENTRYPOINT ["tini", "--", "tollgate"]
CMD ["start"]
