"""Open-loop load on a running service, and what came of it.

`plan` says what is sent, `generator` sends it (`process` from a process of its own), `result` is what was seen,
`capacity` searches for how much a service can take. Imports nothing else of `app`, so that a spawned generator
is up in a moment.
"""
