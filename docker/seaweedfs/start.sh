#!/bin/sh
# Start SeaweedFS with its S3 API, which accepts one pair of keys only.
set -eu
umask 077
printf '{"identities": [{"name": "leeway", "credentials": [{"accessKey": "%s", "secretKey": "%s"}], "actions": ["Admin", "Read", "Write", "List", "Tagging"]}]}\n' \
    "$AWS_ACCESS_KEY_ID" "$AWS_SECRET_ACCESS_KEY" >/tmp/s3.json
# The folder that filer.toml names. SeaweedFS creates it only where there is no filer.toml.
mkdir -p /var/lib/seaweedfs/filerldb2
# Only S3 listens on all interfaces, because the filer accepts any client.
# -volume.max: a bucket allocates seven volumes at once, and so do the records of the filer. The default of 8 leaves
# none for the second bucket. A volume takes no space before it is written to, so only the disk limits their number.
# -logtostderr: otherwise the log is also written to /tmp, which is memory.
exec weed -logtostderr=true server -dir=/var/lib/seaweedfs -ip=127.0.0.1 -ip.bind=127.0.0.1 -volume.max=1000 \
    -master.volumeSizeLimitMB=1024 -s3 -s3.ip.bind=0.0.0.0 -s3.port=8333 -s3.config=/tmp/s3.json
