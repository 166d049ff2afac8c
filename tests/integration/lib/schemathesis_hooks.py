# SPDX-License-Identifier: MIT
"""Loaded by schemathesis (test_http_schema.py), in whose environment it runs: archives are bytes as they are."""
import schemathesis

schemathesis.serializer.alias("application/x-tar", "application/octet-stream")
