"""Users' aggregates and operators over windows.

Modules that need the single rows of a window, or keep a state from one call to the next:

window_apply     windows of any kind, from an index of rows and an index of windows
grid_apply       hopping windows, where nothing beyond a window's end matters to the module
paned_apply      hopping windows of mergeable modules, from states of panes (`pane_states`)
module_kernel    what these share

event_index      the rows, by group and position
window_index     the windows that are not closed, as `window_entries`, and what they have answered
window_frames    how rows make windows, one class for each kind; `count_instants` for count windows
reframing        which windows stay, go and come after a change of rows
module_promises  what the answers promise
taking_back      what windows have answered: kept, or computed again

Calls of a module:

module_rows      the rows of a window as the module gets them
module_windows   answers as rows of the stream, stamps, failures
dead_letters     windows that a module failed on
at_once          all windows in one call, for modules of which that is right
"""
