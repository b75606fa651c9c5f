#!/bin/bash
# The health check of a container, without starting Node: the process answers, and has been ready once.
host=${METRICS_HOST:-127.0.0.1}
if [[ $host == 0.0.0.0 || $host == :: ]]; then host=127.0.0.1; fi
exec 3<>"/dev/tcp/$host/${METRICS_PORT:-9090}" || exit 1
printf 'GET /startupz HTTP/1.0\r\n\r\n' >&3
read -r -t 3 _ status _ <&3
[[ $status == 200 ]]
