FROM localhost/packages
ENV PATH=/usr/lib/postgresql/15/bin:/usr/sbin:/usr/bin:/sbin:/bin
COPY postgres.sh /
STOPSIGNAL SIGINT
ENTRYPOINT ["bash", "/postgres.sh"]
