FROM localhost/packages
ENV XDG_DATA_HOME=/data
ENTRYPOINT ["caddy", "run", "--config", "/etc/caddy/Caddyfile"]
