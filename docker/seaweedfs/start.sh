#!/bin/sh
# One SeaweedFS with its S3 door, which lets in one pair of keys only.
set -eu
umask 077
printf '{"identities": [{"name": "leeway", "credentials": [{"accessKey": "%s", "secretKey": "%s"}], "actions": ["Admin", "Read", "Write", "List", "Tagging"]}]}\n' \
    "$AWS_ACCESS_KEY_ID" "$AWS_SECRET_ACCESS_KEY" >/tmp/s3.json
# Only S3 is for others; the filer would let in anybody.
exec weed server -dir=/var/lib/seaweedfs -ip=127.0.0.1 -ip.bind=127.0.0.1 -master.volumeSizeLimitMB=1024 \
    -s3 -s3.ip.bind=0.0.0.0 -s3.port=8333 -s3.config=/tmp/s3.json
