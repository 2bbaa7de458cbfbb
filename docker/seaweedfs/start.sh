#!/bin/sh
# One SeaweedFS with its S3 door, which lets in one pair of keys only.
set -eu
umask 077
printf '{"identities": [{"name": "leeway", "credentials": [{"accessKey": "%s", "secretKey": "%s"}], "actions": ["Admin", "Read", "Write", "List", "Tagging"]}]}\n' \
    "$AWS_ACCESS_KEY_ID" "$AWS_SECRET_ACCESS_KEY" >/tmp/s3.json
# Where filer.toml says; SeaweedFS makes it only where no such file is.
mkdir -p /var/lib/seaweedfs/filerldb2
# Only S3 is for others; the filer would let in anybody.
# -volume.max: a bucket takes seven volumes at once, and so do the filer's own records; of 8, as installed, none is left
# for the second bucket. None takes room before it is written to: the disk is the limit.
# -logtostderr: or the log is in files in /tmp too, which is memory.
exec weed -logtostderr=true server -dir=/var/lib/seaweedfs -ip=127.0.0.1 -ip.bind=127.0.0.1 -volume.max=1000 \
    -master.volumeSizeLimitMB=1024 -s3 -s3.ip.bind=0.0.0.0 -s3.port=8333 -s3.config=/tmp/s3.json
