"""Following values from node to node: one closure for all analyses. Knows nothing about torch."""
