"""Shardway: a cluster as one machine to one JAX process.

Nothing here needs to be imported: with the package installed, `JAX_PLATFORMS=shardway` runs any JAX
program on a cluster. SHARDWAY_ADDRESS names a running one; without it a private one starts, of the
shape that SHARDWAY_ISLANDS, SHARDWAY_HOSTS and SHARDWAY_DEVICES say (1 x 1 x 8).
"""

__version__ = "0.1.0"
