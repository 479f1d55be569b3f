"""What a lent link costs and how soon it is there, and what members and their controller cost."""
