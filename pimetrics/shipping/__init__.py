"""Delivers recordings and session files to a receiver; the disk is the spool, and what was not taken stays on it.

client    one request at a time over HTTP, credentials from files
memory    what was delivered, and the receiver that this machine belongs to
spool     the bytes of a file, from an offset on, whole lines at a time
shipper   file after file: ask how much is there, send what is not
beside    the same while pi runs, in a thread that nothing waits for
"""
