package main

import (
	"encoding/json"
	"os"
	"testing"
)

func TestShardsAreTheKnownOnes(t *testing.T) {
	text, err := os.ReadFile("testdata/shards.json")
	if err != nil {
		t.Fatal(err)
	}
	var known []struct {
		Uid    string            `json:"uid"`
		Shards map[uint64]uint64 `json:"shards"`
	}
	if err := json.Unmarshal(text, &known); err != nil || len(known) == 0 {
		t.Fatal(len(known), err)
	}
	for _, it := range known {
		for shards, expected := range it.Shards {
			if found := shardOf(it.Uid, shards); found != expected {
				t.Errorf("%q is in shard %d of %d, not %d", it.Uid, found, shards, expected)
			}
		}
	}
}
