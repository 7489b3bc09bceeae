"""The outside world and the composition root: HTTP, configuration, command line. Nobody imports it."""
