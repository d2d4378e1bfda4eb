"""Evaluation of tool calling: suites of test cases, a resumable runner, statistics and reports."""
