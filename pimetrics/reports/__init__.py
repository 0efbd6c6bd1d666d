"""What people read: facts selected, added up and laid out. Above the ledger, below the commands."""
