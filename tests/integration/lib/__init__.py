# SPDX-License-Identifier: MIT
"""Clients and fixtures shared by the integration tests: standard library only."""
