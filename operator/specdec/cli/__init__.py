"""`kubectl specdec`: what a person does by hand. Commands are imported when they are called, so that it starts at once."""
