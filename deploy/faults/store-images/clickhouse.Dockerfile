# The engine of npm start stands for a server.
FROM node:22-bookworm-slim
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends wget
COPY . /engine/
ENTRYPOINT ["bash", "/engine/clickhouse.sh"]
