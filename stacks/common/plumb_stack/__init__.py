# SPDX-License-Identifier: Apache-2.0
"""What workers in Python share: the protocol of stacks/protocol.md, shared memory, timed loops.

A stack derives from `stack.Stack` and `stack.Session` and calls `worker.run(stack)`.
"""
