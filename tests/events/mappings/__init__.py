"""Tests of mappings."""
