"""Tests of replays on Spark, without Spark."""
