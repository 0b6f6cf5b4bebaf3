"""What users see: step tables, failure blocks, the clause table. Every form is made from results, never from prints."""
