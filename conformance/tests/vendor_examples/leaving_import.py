# ruff: noqa: T201
import sys

print("loading")
sys.exit("not today")
