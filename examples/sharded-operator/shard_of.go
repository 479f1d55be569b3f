package main

import (
	"hash/fnv"
	"math/bits"
)

// shardOf is the number of the shard, of so many, that owns the object with this uid: its 64-bit
// FNV-1a hash, scaled.
func shardOf(uid string, shards uint64) uint64 {
	hash := fnv.New64a()
	hash.Write([]byte(uid))
	number, _ := bits.Mul64(hash.Sum64(), shards)
	return number
}
