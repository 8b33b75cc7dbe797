#!/bin/sh
# Environments for the two versions of SageMaker's SDK, which do not go into one; then the tests that need them:
#     sh tests/target/sagemaker/environments.sh FOLDER
set -e
folder=${1:?name a folder}
for version in 2.257.7 3.27.0; do
    major=${version%%.*}
    [ -x "$folder/sdk$major/bin/python" ] || uv venv -q --python 3.11 "$folder/sdk$major"
    uv pip install -q --python "$folder/sdk$major/bin/python" "sagemaker==$version" boto3 'moto>=5.2,<6'
done
XLA_MIGRATE_SDK2="$folder/sdk2/bin/python" XLA_MIGRATE_SDK3="$folder/sdk3/bin/python" \
    exec python -m pytest -m target tests/target/sagemaker
