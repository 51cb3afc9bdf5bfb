"""The engine half: the agent (PID 1 of the pod), the plugin (inside SGLang) and what they say.

`protocol` is the only module that the operator half imports; `loopback` is what agent and plugin
say to each other inside the pod.
"""
