FROM localhost/debian
COPY nats-server /usr/bin/
ENTRYPOINT ["nats-server"]
