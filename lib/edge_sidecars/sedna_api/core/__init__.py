"""Pure: no I/O, no clock, no chance. From what things are called to what is done with them:

kinds          Sedna's kinds, their names and paths; node_label: the label for each node
api_object     one object as compact JSON; messages: what GM and LC say on the stream
report         what a node says of an object, how it is numbered, which one replaces another
stored_report  reports that stand in a NodeReport, and how far an object has taken them in
node_report_entry  one object's part of a NodeReport
store_reports  how reports are put into it
node_report    the whole document of one node and namespace
"""
