"""A small engine that really decodes speculatively: a transformer in numpy, its caches, drafters and rules.

It is written to be read. ``decoding.decode`` is the round: propose, verify, accept, roll back. Everything random goes
through one object (``sampling.Chance``), so that the same code either runs with random numbers or is enumerated branch
by branch (``enumeration.outcomes``), which proves that its output has the target's law.
"""
