FROM localhost/debian
COPY node npm.tar ca-certificates.crt /tmp/
RUN mkdir -p /usr/local/lib/node_modules && tar -x -C /usr/local/lib/node_modules -f /tmp/npm.tar \
    && mv /tmp/node /usr/local/bin/ && mv /tmp/ca-certificates.crt /etc/ssl/certs/ && rm /tmp/npm.tar \
    && ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm
# The registry may use an authority that only this machine trusts.
ENV NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt
