"""The judge: counters -> measurement -> evidence -> verdict. Pure."""
