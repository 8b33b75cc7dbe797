"""Run a launch script against a mock of AWS until it requests a training job; keep the request and the uploads.

    python capture.py OUT LAUNCH_SCRIPT [ARGS...]

Runs with the Python of the SageMaker SDK, which may be another than ours: imports the standard library, botocore and
moto only. Writes OUT/request.json, OUT/sdk.json and OUT/s3/BUCKET/KEY. Exit codes: 0 a request was kept, 3 the script
ended without one, 4 a package is missing; else the script's own. Tried with sagemaker 2.257.7 and 3.27.0, moto 5.2.5.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import runpy
import sys
import traceback

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

NO_JOB, NO_PACKAGE = 3, 4
_ACCOUNT = "123456789012"
# What moto lacks, or what would need a role that only the user's account has.
_ROLE = {
    "Path": "/",
    "RoleName": "rehearsal",
    "RoleId": "AROAREHEARSAL0000000",
    "Arn": f"arn:aws:iam::{_ACCOUNT}:role/rehearsal",
    "CreateDate": "2026-01-01T00:00:00Z",
}


def _answers(operation: str, arguments: dict[str, Any]) -> dict[str, Any] | None:
    if operation == "GetCallerIdentity":
        arn = f"arn:aws:sts::{_ACCOUNT}:assumed-role/rehearsal/session"
        return {"UserId": "x", "Account": _ACCOUNT, "Arn": arn}
    if operation == "GetRole":
        name = arguments["RoleName"]
        arn = f"arn:aws:iam::{_ACCOUNT}:role/{name}"
        return {"Role": {**_ROLE, "RoleName": name, "Arn": arn}}
    if operation == "SimulatePrincipalPolicy":
        return {"EvaluationResults": [], "IsTruncated": False}
    return None


def main(words: list[str]) -> int:
    """Do it; the exit code."""
    out, script, *rest = words
    os.environ.update(
        AWS_ACCESS_KEY_ID="rehearsal",
        AWS_SECRET_ACCESS_KEY="rehearsal",
        AWS_EC2_METADATA_DISABLED="true",
        SAGEMAKER_SUPPRESS_V2_WARNING="1",
    )
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL"):
        os.environ.pop(name, None)
    os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")
    try:
        import botocore.client
        from moto import mock_aws

        version = importlib.metadata.version("sagemaker")
    except (ImportError, importlib.metadata.PackageNotFoundError) as error:
        print(f"capture: {error}", file=sys.stderr)
        return NO_PACKAGE
    ask = botocore.client.BaseClient._make_api_call

    def answer(client: Any, operation: str, arguments: dict[str, Any]) -> Any:
        if operation == "CreateTrainingJob":
            _keep(out, version, arguments, client.meta.region_name, ask)
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)  # the script would wait for a job that does not run
        known = _answers(operation, arguments)
        return ask(client, operation, arguments) if known is None else known

    botocore.client.BaseClient._make_api_call = answer
    sys.argv = [script, *rest]
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    with mock_aws():
        try:
            runpy.run_path(script, run_name="__main__")
        except SystemExit as leaving:
            if leaving.code not in (None, 0):
                raise
        except Exception:
            traceback.print_exc()
            return 1
    return NO_JOB


def _keep(
    out: str, version: str, request: dict[str, Any], region: str, ask: Callable[..., Any]
) -> None:
    import boto3

    with open(os.path.join(out, "request.json"), "w") as file:
        json.dump(request, file, indent=1, default=str)
    with open(os.path.join(out, "sdk.json"), "w") as file:
        json.dump({"sagemaker": version, "region": region}, file)
    s3 = boto3.client("s3", region_name=region)
    for bucket in ask(s3, "ListBuckets", {})["Buckets"]:
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket["Name"])
        for item in (item for page in pages for item in page.get("Contents", [])):
            path = os.path.join(out, "s3", bucket["Name"], item["Key"])
            if not item["Key"].endswith("/"):
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "wb") as file_:
                    file_.write(
                        s3.get_object(Bucket=bucket["Name"], Key=item["Key"])["Body"].read()
                    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
