"""The cloud-side controller of pools, pure: Nodes, PoolMembers and now come in, commands go out.

node_state       what is needed of a Node; the two taints
witness          votes: who is fresh, who has a vote, what makes a majority
membership       which PoolMembers there are to be, and who finds no place
taints           which taints each Node of a pool is to have; which nodes stay undecided
conditions       what the controller says on a PoolMember
pool_controller  all of it over time: reports in, commands out

    node_observed, member_observed ──► plan(now) ──► commands ──► performed / failed
"""
