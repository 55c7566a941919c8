"""Regard: "Attention Is All You Need", whole."""
