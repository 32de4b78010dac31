"""What sources give: rows of files and frames as chunks of the exchange."""
