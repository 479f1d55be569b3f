"""Pure: no I/O, no clock, no chance. From what things are called to what is done with them:

kinds          Sedna's kinds, their names and paths; the label for each node
api_object     one object as compact JSON; messages: what GM and LC say on the stream
report         what a node says of an object, how it is numbered, which one replaces another
stored_report  one object's part of a NodeReport, and how far the object has taken it in
store_reports  how reports are put into it
file_url       where a file is: a path on the node, or a URL
capability     by what LC knows a worker
node_report    the whole document of one node and namespace
"""
