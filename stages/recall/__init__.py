"""Channels: each finds candidates its own way. One component per file."""
